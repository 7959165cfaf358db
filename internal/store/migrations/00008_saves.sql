-- +goose Up

-- The workspace of a turn is saved behind it. A row is one save that is owed: it goes when the save, and the
-- hooks that come after it, are done. Those of a sandbox are done in their order. Host is the server whose
-- spool has what the turn left; data is what the hooks are given.
create table saves (
    turn        text primary key,
    tenant      text not null,
    sandbox     text not null,
    host        text not null,
    incarnation bigint not null,
    data        text not null,
    saved       boolean not null,
    version     text not null,
    attempts    bigint not null,
    last_error  text not null,
    created_at  timestamptz not null,
    due_at      timestamptz not null
);
create index saves_due on saves (due_at);
create index saves_sandbox on saves (sandbox, created_at, turn);

alter table turns add column saving boolean not null default false;
