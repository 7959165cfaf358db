-- +goose Up

-- A thread is a conversation with a key that a chat system chose. The key is unique in its workspace.
alter table conversations add column workspace text not null default '';
alter table conversations add column thread text not null default '';
alter table conversations add column channel text not null default '';
create unique index conversations_thread on conversations (tenant, workspace, thread) where thread <> '' and deleted_at is null;
create index conversations_ended_thread on conversations (tenant, workspace, thread) where thread <> '' and deleted_at is not null;
create index conversations_threads on conversations (tenant, created_at, id) where thread <> '' and deleted_at is null;

-- When the sandbox last stopped, and when it last ran again after that.
alter table sandboxes add column paused_at timestamptz;
alter table sandboxes add column resumed_at timestamptz;

-- The URL under which a sandbox engine serves the agent's port: a cache, which is renewed when it does not work.
alter table sandboxes add column preview_url text;
alter table sandboxes add column preview_token text;
alter table sandboxes add column preview_expires_at timestamptz;

create index sandboxes_paused on sandboxes (paused_at) where paused_at is not null; -- sandboxes_kind_state has the status
create index conversations_sessions_updated on conversations (updated_at) where thread <> '' and deleted_at is null;

-- Threads and their sandboxes, for other programs.
create view sandbox_sessions as
    select c.thread as thread_id, c.channel as channel_id, c.sandbox as sandbox_id, c.session as session_id,
        s.preview_url, s.preview_token, s.preview_expires_at,
        case
            when s.state is null or s.state in ('pending', 'creating') then 'creating'
            when s.state = 'running' then 'active'
            when s.state in ('unhealthy', 'starting') then 'resuming'
            when s.state in ('stopping', 'stopped', 'archived') then 'paused'
            when s.state in ('terminating', 'terminated') then 'destroyed'
            else 'error'
        end as status,
        s.paused_at, s.resumed_at, s.destroyed_at, c.created_at,
        case when s.active_at > c.updated_at then s.active_at else c.updated_at end as updated_at,
        c.id as conversation_id, c.tenant, c.workspace
    from conversations c left join sandboxes s on s.id = c.sandbox
    where c.thread <> '' and c.deleted_at is null;
