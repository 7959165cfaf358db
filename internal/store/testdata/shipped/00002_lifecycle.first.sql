-- +goose Up

-- What the engine keeps of recoveries and of ends under way. error_message is the failure's own
-- message, for the views below.
alter table sandboxes add column recoveries bigint not null default 0;
alter table sandboxes add column recovered_since timestamptz;
alter table sandboxes add column finalizers text not null default '[]';
alter table sandboxes add column skip_save boolean not null default false;
alter table sandboxes add column error_message text not null default '';

create index sandboxes_idle on sandboxes (owner_kind, active_at) where deleted_at is null;
create index sandboxes_claims on sandboxes (driver, host, id) where instance <> '';

-- How much a tenant uses of what is limited. The row is changed in the statement that makes or ends
-- what it counts, and the database itself refuses one more than the cap. No cap is 0.
create table quotas (
    tenant text not null,
    kind   text not null,
    used   bigint not null,
    cap    bigint not null,
    primary key (tenant, kind),
    constraint quotas_cap check (cap = 0 or used <= cap),
    constraint quotas_used check (used >= 0)
);
insert into quotas (tenant, kind, used, cap)
select tenant, 'sandboxes', count(*), 0 from sandboxes where deleted_at is null group by tenant;

-- What is counted and has no row of its own: a running turn. One that nobody prolongs ends.
create table reservations (
    tenant text not null,
    kind   text not null,
    ref    text not null,
    until  timestamptz not null,
    primary key (tenant, kind, ref)
);
create index reservations_until on reservations (until);

-- What is true of the whole installation.
create table settings (
    name  text primary key,
    value text not null
);

-- A project's sandbox in the words of the project API.
create view project_sandboxes as
select id, owner_id as project_id, tenant as tenant_id, id as sandbox_id,
    case state
        when 'pending' then 'PENDING'
        when 'creating' then 'CREATING'
        when 'starting' then 'CREATING'
        when 'running' then 'RUNNING'
        when 'unhealthy' then 'UNHEALTHY'
        when 'stopping' then 'STOPPED'
        when 'stopped' then 'STOPPED'
        when 'archived' then 'STOPPED'
        when 'terminating' then 'TERMINATED'
        when 'terminated' then 'TERMINATED'
        else 'ERROR'
    end as status,
    created_at, started_at, active_at as last_accessed_at, probed_at as health_checked_at,
    case when error_message = '' then null else error_message end as error_message,
    metadata as metadata_json
from sandboxes where owner_kind = 'project' and deleted_at is null;
