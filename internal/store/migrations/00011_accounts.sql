-- +goose Up

-- A sandbox belongs to an account and an agent of its tenant, if it was made for one, and keeps the prefix of
-- its versions from birth on: a changed template moves no version. An empty prefix is one from before, which
-- the server fills in when it starts.
alter table sandboxes add column account text not null default '';
alter table sandboxes add column agent text not null default '';
alter table sandboxes add column prefix text not null default '';
update sandboxes set
    account = coalesce((select a.id from conversations c join accounts a on a.id = c.account and a.tenant = c.tenant
        where c.id = sandboxes.owner_id and c.tenant = sandboxes.tenant), ''),
    agent = coalesce((select c.agent from conversations c where c.id = sandboxes.owner_id and c.tenant = sandboxes.tenant), '')
where owner_kind = 'conversation';
create index sandboxes_account on sandboxes (tenant, account, created_at, id) where deleted_at is null and account <> '';
create index sandboxes_unplaced on sandboxes (id) where prefix = '';

-- Variables that a conversation's own sandbox is made with.
alter table conversations add column env text not null default '{}';
create index conversations_account on conversations (tenant, account, created_at, id) where deleted_at is null and account <> '';
