-- +goose Up

-- Slack workspaces in which the app is installed. Each belongs to one tenant. Tokens is a JSON text, encrypted like the
-- values of 00016.
create table slack_workspaces (
    team       text primary key,              -- Slack's id of the workspace
    tenant     text not null references tenants (id),
    name       text not null,
    url        text not null,
    bot_user   text not null,                 -- the app's user in the workspace
    bot        text not null,
    template   text not null default '',      -- of new threads; empty: the server's default
    tokens     text not null,
    sealed     text not null default '',
    failure    text not null default '',      -- why Slack refuses the app; empty: it does not
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index slack_workspaces_tenant on slack_workspaces (tenant, team);
create index slack_workspaces_sealed on slack_workspaces (sealed, tenant, team);

-- Events that were received. Slack sends an event again until it is acknowledged, to any server.
create table slack_events (
    team    text not null,
    event   text not null,
    seen_at timestamptz not null,
    primary key (team, event)
);
create index slack_events_seen on slack_events (seen_at);

-- Messages that get an answer, one row each. The holder of the thread's lease (kind slack) answers them in their order;
-- its writes are fenced by the lease.
create table slack_replies (
    id         text primary key,              -- also that of the turn
    tenant     text not null references tenants (id),
    team       text not null,
    channel    text not null,
    message_ts text not null,                 -- the message
    thread_ts  text not null,                 -- the thread in Slack that the answer goes to
    thread     text not null,                 -- the id of the lease: one for each sandbox
    kind       text not null,                 -- prompt or stop
    request    text not null,                 -- JSON: who asks what
    state      text not null,                 -- waiting, running, done
    cancelled  boolean not null default false,
    progress   text not null default '{}',    -- JSON: what the holder did in Slack
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create unique index slack_replies_message on slack_replies (team, channel, message_ts);
create index slack_replies_place on slack_replies (team, channel, thread_ts);
create index slack_replies_open on slack_replies (thread, message_ts) where state <> 'done';
