// Run `npm test` in this folder. Requires Node 22, whose WebSocket is the client.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { answerTo, readWebhook } from './bot.js';
import { Room } from './room.js';
import { Sessions } from './session.js';
import { problemOf } from './signature.js';
import { TextSocket } from './websocket.js';

describe('signatures', () => {
  const now = 1_800_000_000_000;
  const body = Buffer.from('{"text":"hello"}');
  const secret = `whsec_${Buffer.from('a made-up secret of some length').toString('base64')}`;
  const sign = (key, timestamp, content = body) =>
    `v1,${createHmac('sha256', key).update(`msg_1.${timestamp}.`).update(content).digest('base64')}`;
  const signed = (signature, timestamp = now / 1000) => ({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signature,
  });
  const key = Buffer.from('a made-up secret of some length');

  test('Standard Webhooks: with the decoded secret, among others, with a plain secret', () => {
    assert.equal(problemOf(signed(sign(key, now / 1000)), body, secret, now), undefined);
    assert.equal(problemOf(signed(`v1,bad ${sign(key, now / 1000)}`), body, secret, now), undefined);
    assert.equal(problemOf(signed(sign('plain', now / 1000)), body, 'plain', now), undefined);
  });

  test('GitHub', () => {
    const of = (content) => `sha256=${createHmac('sha256', secret).update(content).digest('hex')}`;
    assert.equal(problemOf({ 'x-hub-signature-256': of(body) }, body, secret, now), undefined);
    assert.match(problemOf({ 'x-hub-signature-256': of('{}') }, body, secret, now), /does not fit/);
  });

  test('what is refused', () => {
    const right = sign(key, now / 1000);
    const refused = (headers, content = body) => problemOf(headers, content, secret, now);
    assert.match(refused({}), /not signed/);
    assert.match(refused(signed(right), Buffer.from('{"text":"hullo"}')), /does not fit/);
    assert.match(refused({ ...signed(right), 'webhook-id': 'msg_2' }), /does not fit/);
    assert.match(refused(signed(sign('another key', now / 1000))), /does not fit/);
    const old = now / 1000 - 301;
    assert.match(refused(signed(sign(key, old), old)), /five minutes/);
    assert.match(refused(signed(sign(key, 'soon'), 'soon')), /five minutes/);
  });
});

describe('sessions', () => {
  const sessions = new Sessions('a made-up password');
  const asked = (headers) => sessions.nameOf({ headers });
  const cookieOf = (line) => line.split(';')[0];

  test('a cookie says who it is, until the password changes or it is too old', () => {
    const line = sessions.begin('Ädä; x=y', false);
    assert.match(line, /; HttpOnly; SameSite=Strict$/);
    assert.match(sessions.begin('Ada', true), /; Secure$/);
    assert.equal(asked({ cookie: `other=1; ${cookieOf(line)}` }), 'Ädä; x=y');
    assert.equal(new Sessions('another password').nameOf({ headers: { cookie: cookieOf(line) } }), undefined);
    assert.equal(sessions.nameOf({ headers: { cookie: cookieOf(line) } }, Date.now() + 31 * 86_400_000), undefined);
    const [name, until, signature] = cookieOf(line).split('=')[1].split('.');
    for (const forged of [`${name}.9999999999.${signature}`, `QWRh.${until}.${signature}`, name, '..', '']) {
      assert.equal(asked({ cookie: `chat_session=${forged}` }), undefined, forged);
    }
  });

  test('a program has the password itself', () => {
    assert.equal(asked({ authorization: 'Bearer a made-up password' }), 'a program');
    assert.equal(asked({ authorization: 'Bearer wrong' }), undefined);
    assert.equal(asked({}), undefined);
  });
});

describe('webhooks as messages', () => {
  const read = (event, headers = {}) => readWebhook(headers, event);

  test('of programs, of the platform, of GitHub', () => {
    assert.deepEqual(read({ from: ' deploys ', text: 'done' }), { from: 'deploys', text: 'done' });
    assert.deepEqual(read({ amount: 3 }), { from: 'webhook', text: '{\n  "amount": 3\n}' });
    for (const odd of [null, 3, 'text', [], { text: '' }, { text: 5, from: {} }]) {
      assert.equal(typeof read(odd).text, 'string');
      assert.equal(read(odd).from, 'webhook');
    }
    const crash = {
      event: 'service.crash_loop',
      service_name: 'bot',
      consecutive_restart_failures: 3,
      last_error: 'exit code 1',
    };
    assert.equal(read(crash).text, 'The service bot keeps crashing: 3 failed starts in a row. exit code 1');
    assert.match(read({ ...crash, auto_paused: true }).text, /is paused/);
    const schedule = {
      event: 'schedule.failure_streak',
      agent_name: 'report',
      consecutive_failures: 3,
      auto_disabled: true,
    };
    assert.match(read(schedule).text, /^The schedule of report is disabled: 3 failures in a row/);

    const github = { sender: { login: 'ada' }, repository: { full_name: 'acme/shop' } };
    const push = { ...github, ref: 'refs/heads/main', commits: [{ message: 'Faster pages\n\nBecause' }] };
    assert.deepEqual(read(push, { 'x-github-event': 'push' }), {
      from: 'GitHub',
      text: 'ada pushed to main of acme/shop\n- Faster pages',
    });
    const opened = {
      ...github,
      action: 'opened',
      issue: { number: 7, title: 'Slow', html_url: 'https://github.example/7' },
    };
    assert.equal(
      read(opened, { 'x-github-event': 'issues' }).text,
      'ada: issues #7 opened in acme/shop: Slow\nhttps://github.example/7',
    );
    assert.equal(read(null, { 'x-github-event': 'ping' }).text, 'somebody: ping  in a repository');
  });

  test('are cut', () => {
    assert.equal(read({ text: 'x'.repeat(5000) }).text.length, 2000);
  });
});

test('the bot answers commands', () => {
  const messages = ['red door', 'green door', 'green gate'].map((text, index) => ({
    id: String(index),
    at: '2026-11-22T09:30:00.000Z',
    kind: index === 2 ? 'bot' : 'webhook',
    from: index === 0 ? 'Ada' : 'shop',
    text,
  }));
  assert.equal(answerTo('hello /help', messages), undefined);
  assert.match(answerTo('/help', messages), /\/stats/);
  assert.equal(answerTo(' /stats ', messages), 'shop: 2\nAda: 1');
  assert.equal(answerTo('/find GREEN', messages), '2026-11-22 09:30 shop: green door');
  assert.match(answerTo('/find', messages), /Name a word/);
  assert.match(answerTo('/find blue', messages), /No message/);
  assert.match(answerTo('/dance', messages), /no command \/dance/);
});

describe('the room', () => {
  /** Replaces the platform's storage with one document whose writes can fail. */
  function documents() {
    const kept = { value: undefined, writes: 0, problem: undefined };
    return {
      kept,
      get: async () => (kept.value ? { value: kept.value } : null),
      async update(_namespace, _key, change) {
        kept.writes += 1;
        await new Promise((resolve) => setImmediate(resolve));
        if (kept.problem) throw kept.problem;
        kept.value = await change(kept.value ?? null);
      },
    };
  }
  const message = (id, text = 'hello') => ({ id, at: '2026-11-22T09:30:00.000Z', kind: 'person', from: 'Ada', text });

  test('keeps messages, tells each once, and writes a burst together', async () => {
    const store = documents();
    const told = [];
    const room = new Room(({ id }) => told.push(id), store);
    await Promise.all(['a', 'b', 'c', 'b'].map((id) => room.add(message(id))));
    assert.deepEqual(told, ['a', 'b', 'c']);
    assert.equal(store.kept.writes, 2);
    // Simulates a write of another instance.
    store.kept.value = { messages: [...store.kept.value.messages, message('d')] };
    await room.add(message('e'));
    assert.deepEqual(told, ['a', 'b', 'c', 'd', 'e']);

    const next = new Room(() => {}, store);
    await next.refresh();
    assert.deepEqual(
      next.messages.map(({ id }) => id),
      told,
    );
    assert.ok(next.has('d'));
  });

  test('what cannot be kept is refused, and the next is kept', async () => {
    const store = documents();
    const told = [];
    const room = new Room(({ id }) => told.push(id), store);
    store.kept.problem = new Error('full');
    await assert.rejects(room.add(message('a')), /full/);
    store.kept.problem = undefined;
    await room.add(message('b'));
    assert.deepEqual(told, ['b']);
  });

  test('keeps the newest that there is room for', async () => {
    const store = documents();
    const room = new Room(() => {}, store);
    await room.add(...Array.from({ length: 250 }, (_, index) => message(`m${index}`)));
    assert.equal(room.messages.length, 200);
    assert.equal(room.messages.at(-1).id, 'm249');
    await room.add(...Array.from({ length: 60 }, (_, index) => message(`long${index}`, 'ä'.repeat(2000))));
    assert.ok(Buffer.byteLength(JSON.stringify(store.kept.value)) < 100_000);
    assert.equal(room.messages.at(-1).id, 'long59');
  });
});

describe('WebSockets', () => {
  let port;
  const server = createServer().on('upgrade', (request, socket, head) => {
    TextSocket.accept(request, socket, head, {
      text: (text, from) => from.send(text === 'long' ? 'x'.repeat(70_000) : text),
      close: () => {},
    });
  });
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    port = server.address().port;
  });
  after(() => server.close());

  const HANDSHAKE =
    'GET / HTTP/1.1\r\nHost: chat\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

  /** Creates a masked frame, as browsers send them. */
  function frame(first, data) {
    const mask = Buffer.from([1, 2, 3, 4]);
    const length = data.length < 126 ? [0x80 | data.length] : [0x80 | 126, data.length >> 8, data.length & 255];
    return Buffer.concat([
      Buffer.from([first, ...length]),
      mask,
      Buffer.from(data.map((byte, index) => byte ^ mask[index & 3])),
    ]);
  }

  /** Returns the response to these bytes, after the handshake, until the connection ends. */
  async function answerTo(...parts) {
    const socket = connect(port, '127.0.0.1');
    const received = [];
    socket.on('data', (data) => received.push(data));
    socket.write(HANDSHAKE);
    for (const part of parts) {
      socket.write(part);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await once(socket, 'close');
    const all = Buffer.concat(received);
    const end = all.indexOf('\r\n\r\n');
    assert.match(all.toString('latin1', 0, end), /101 [\s\S]*s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/);
    return all.subarray(end + 4);
  }

  test('echo messages of every length to a real client', async () => {
    const client = new WebSocket(`ws://127.0.0.1:${port}/`);
    await once(client, 'open');
    for (const text of ['', 'hello', 'ä€😀', 'x'.repeat(125), 'x'.repeat(126), 'x'.repeat(16_384)]) {
      client.send(text);
      assert.equal((await once(client, 'message'))[0].data, text);
    }
    client.send('long');
    assert.equal((await once(client, 'message'))[0].data.length, 70_000);
    client.close(1000);
    assert.equal((await once(client, 'close'))[0].wasClean, true);
  });

  test('a message in parts, a ping between them, bytes one by one', async () => {
    const bytes = Buffer.concat([
      frame(0x01, Buffer.from('one ')),
      frame(0x89, Buffer.from('?')),
      frame(0x80, Buffer.from('two')),
      frame(0x88, Buffer.from([3, 232])),
    ]);
    const expected = Buffer.concat([
      Buffer.from([0x8a, 1]),
      Buffer.from('?'),
      Buffer.from([0x81, 7]),
      Buffer.from('one two'),
      Buffer.from([0x88, 2, 3, 232]),
    ]);
    assert.deepEqual(await answerTo(...Array.from(bytes, (byte) => Buffer.from([byte]))), expected);
    assert.deepEqual(await answerTo(bytes), expected);
  });

  const code = (number) => Buffer.from([0x88, 2, number >> 8, number & 255]);
  const cases = {
    'a frame without a mask': [[Buffer.from([0x81, 1, 65])], 1002],
    'a reserved bit': [[frame(0xc1, Buffer.from('a'))], 1002],
    'a continuation of nothing': [[frame(0x80, Buffer.from('a'))], 1002],
    'a new message in the middle of another': [[frame(0x01, Buffer.from('a')), frame(0x81, Buffer.from('b'))], 1002],
    'a long ping': [[frame(0x89, Buffer.alloc(200))], 1002],
    'bytes that are no text': [[frame(0x81, Buffer.from([0xff]))], 1007],
    'a binary message': [[frame(0x82, Buffer.from('a'))], 1003],
    'too much in one frame': [[frame(0x81, Buffer.alloc(16_385, 65))], 1009],
    'too much in several': [
      Array.from({ length: 3 }, (_, index) => frame(index ? 0x00 : 0x01, Buffer.alloc(8000, 65))),
      1009,
    ],
    'an endless frame': [[Buffer.from([0x81, 0xff, 0, 0, 1, 0, 0, 0, 0, 0])], 1009],
  };
  for (const [name, [parts, number]] of Object.entries(cases)) {
    test(`${name} ends the connection with ${number}`, async () => {
      assert.deepEqual(await answerTo(...parts), code(number));
    });
  }

  test('what is no WebSocket is refused', async () => {
    const socket = connect(port, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: chat\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n');
    const [data] = await once(socket, 'data');
    assert.match(data.toString(), /^HTTP\/1\.1 400 /);
    socket.destroy();
  });
});
