-- +goose Up

-- An owner and a name stay taken until nothing is left of the deleted sandbox that had them. Servers of
-- before freed them at the delete: what they deleted and did not end yet may have a successor already.
alter table sandboxes add column superseded boolean not null default false;
update sandboxes set superseded = true where deleted_at is not null and state <> 'terminated' and exists (
    select 1 from sandboxes other
    where other.tenant = sandboxes.tenant and other.owner_kind = sandboxes.owner_kind and other.owner_id = sandboxes.owner_id
        and other.id <> sandboxes.id and (other.deleted_at is null or other.state <> 'terminated'));

drop index sandboxes_owner;
create unique index sandboxes_owner on sandboxes (tenant, owner_kind, owner_id)
    where deleted_at is null or state <> 'terminated' and not superseded;
drop index sandboxes_name;
create unique index sandboxes_name on sandboxes (tenant, name)
    where name <> '' and (deleted_at is null or state <> 'terminated' and not superseded);
