-- +goose Up

-- An owner and a name stay taken until nothing is left of the deleted sandbox that had them. Servers of
-- before freed them at the delete: what they deleted and did not end yet may have a successor already.
alter table sandboxes add column superseded boolean not null default false;
update sandboxes set superseded = true where deleted_at is not null and state <> 'terminated' and exists (
    select 1 from sandboxes other
    where other.tenant = sandboxes.tenant and other.owner_kind = sandboxes.owner_kind and other.owner_id = sandboxes.owner_id
        and other.id <> sandboxes.id and (other.deleted_at is null or other.state <> 'terminated'));

-- contract: an index of the same name and a wider condition takes its place, and no statement names it.
drop index sandboxes_owner;
create unique index sandboxes_owner on sandboxes (tenant, owner_kind, owner_id)
    where deleted_at is null or state <> 'terminated' and not superseded;
-- contract: an index of the same name and a wider condition takes its place, and no statement names it.
drop index sandboxes_name;
create unique index sandboxes_name on sandboxes (tenant, name)
    where name <> '' and (deleted_at is null or state <> 'terminated' and not superseded);

-- The machines that keep local sandboxes, by the names in their data directories.
create table hosts (
    name          text primary key,
    advertise_url text not null,
    started_at    timestamptz not null,
    seen_at       timestamptz not null,
    forgotten_at  timestamptz
);
create index sandboxes_host on sandboxes (host, id) where host <> '';

-- The newest incarnation that was left on a machine when it was forgotten. What is found of it is kept.
alter table sandboxes add column left_incarnation bigint not null default 0;
