-- +goose Up

-- The files of a prompt: turns.files has their names, paths and sizes as a JSON list, prompt_files their bytes until
-- the agent of the turn has ended.
alter table turns add column files text not null default '[]';
create table prompt_files (
    turn   text not null references turns (id),
    n      bigint not null, -- the place in turns.files, from 0
    tenant text not null,
    size   bigint not null,
    data   bytea not null,
    primary key (turn, n)
);
create index prompt_files_tenant on prompt_files (tenant, size);
