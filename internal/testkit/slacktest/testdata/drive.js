// Drives a Slack with the clients that Slack publishes: node drive.js API_URL BOT_TOKEN APP_TOKEN CHANNEL USER TEAM.
// It prints one JSON object with what the clients saw.
const { WebClient, LogLevel } = require('@slack/web-api');
const { SocketModeClient } = require('@slack/socket-mode');

const [slackApiUrl, token, appToken, channel, user, team] = process.argv.slice(2);
const options = { slackApiUrl, logLevel: LogLevel.ERROR, retryConfig: { retries: 3, minTimeout: 50, maxTimeout: 200 } };
const web = new WebClient(token, options);
const saw = { events: [], clicks: [], connected: 0 };

async function code(call) {
  try {
    await call;
    return 'ok';
  } catch (e) {
    return e.data ? e.data.error : String(e);
  }
}

async function messages() {
  saw.auth = await web.auth.test();
  const root = await web.chat.postMessage({ channel, text: 'root', metadata: { event_type: 'berth_reply', event_payload: { reply: 'r1' } } });
  saw.root = root.ts;
  for (let i = 0; i < 4; i++) await web.chat.postMessage({ channel, thread_ts: root.ts, text: 'reply ' + i, blocks: [{ type: 'section', text: { type: 'mrkdwn', text: 'reply ' + i } }] });
  await web.chat.update({ channel, ts: root.ts, text: 'root, edited' });
  saw.texts = [];
  for await (const page of web.paginate('conversations.replies', { channel, ts: root.ts, limit: 2, include_all_metadata: true })) {
    for (const m of page.messages) saw.texts.push(m.text + (m.metadata ? '+' + m.metadata.event_type : ''));
  }
  saw.withoutMetadata = (await web.conversations.replies({ channel, ts: root.ts })).messages.some((m) => m.metadata);
  await web.reactions.add({ channel, timestamp: root.ts, name: 'eyes' });
  saw.twice = await code(web.reactions.add({ channel, timestamp: root.ts, name: 'eyes' }));
  saw.email = (await web.users.info({ user })).user.profile.email;
  saw.unknownChannel = await code(web.chat.postMessage({ channel: 'CNONE', text: 'x' }));
  saw.empty = await code(web.chat.postMessage({ channel }));
  saw.badToken = await code(new WebClient('xoxb-no', options).auth.test());
  saw.unknownMethod = await code(web.apiCall('no.method'));
  saw.ephemeral = await code(web.chat.postEphemeral({ channel, user, text: 'for you' }));
}

async function streams() {
  const s = web.chatStream({ channel, thread_ts: saw.root, recipient_user_id: user, recipient_team_id: team, buffer_size: 1 });
  await s.append({ markdown_text: '**one** ' });
  await s.append({ chunks: [{ type: 'task_update', id: 't1', title: 'Run ls', status: 'in_progress' }] });
  await s.append({ markdown_text: 'two' });
  const done = await s.stop({ metadata: { event_type: 'berth_reply', event_payload: { reply: 'r2' } } });
  saw.stream = done.ts;
  const raw = await web.chat.startStream({ channel, thread_ts: saw.root, recipient_user_id: user, recipient_team_id: team, task_display_mode: 'timeline',
    chunks: [{ type: 'blocks', blocks: [{ type: 'actions', elements: [{ type: 'button', action_id: 'b', text: { type: 'plain_text', text: 'Stop' } }] }] }] });
  saw.both = await code(web.chat.appendStream({ channel, ts: raw.ts, markdown_text: 'x', chunks: [{ type: 'markdown_text', text: 'x' }] }));
  saw.badChunk = await code(web.chat.appendStream({ channel, ts: raw.ts, chunks: [{ type: 'task_update', title: 'without an id' }] }));
  saw.editOfStream = await code(web.chat.update({ channel, ts: raw.ts, text: 'edited' }));
  await web.chat.appendStream({ channel, ts: raw.ts, chunks: [{ type: 'markdown_text', text: 'half' }, { type: 'task_update', id: 't', title: 'Run', status: 'complete' }] });
  await web.chat.stopStream({ channel, ts: raw.ts });
  saw.stopTwice = await code(web.chat.stopStream({ channel, ts: raw.ts }));
  await web.chat.update({ channel, ts: raw.ts, text: 'edited' });
  saw.edited = raw.ts;
  saw.afterStop = await code(web.chat.appendStream({ channel, ts: done.ts, markdown_text: 'late' }));
  saw.noRecipient = await code(web.chat.startStream({ channel, thread_ts: saw.root }));
}

async function files() {
  const up = await web.filesUploadV2({ channel_id: channel, thread_ts: saw.root, filename: 'a.txt', file: Buffer.from('content of a'), initial_comment: 'here' });
  const file = up.files[0].files[0];
  saw.file = file.id;
  saw.download = await (await fetch(file.url_private, { headers: { Authorization: 'Bearer ' + token } })).text();
  saw.downloadWithout = (await (await fetch(file.url_private)).text()).slice(0, 15);
}

async function sockets() {
  const socket = new SocketModeClient({ appToken, clientOptions: options, logLevel: LogLevel.ERROR });
  socket.on('connected', () => saw.connected++);
  socket.on('slack_event', async ({ ack, type, body, retry_num }) => {
    if (type === 'events_api' && body.event.type === 'app_mention') {
      saw.events.push(body.event_id + ' ' + retry_num);
      if (body.event.text.includes('unacked') && retry_num === 0) return;
      await ack();
      await web.chat.postMessage({ channel, thread_ts: body.event.ts, text: 'answer' });
      return;
    }
    await ack();
    if (type === 'interactive') saw.clicks.push(body.actions[0].action_id);
  });
  await socket.start();
  console.error('ready');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  await socket.disconnect();
}

(async () => {
  await messages();
  await streams();
  await files();
  await sockets();
  console.log(JSON.stringify(saw));
  process.exit(0);
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
