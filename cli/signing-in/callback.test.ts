import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { type Callback, waitForCallback } from './callback.ts';

describe('the address that a browser comes back to', () => {
  let callback: Callback | undefined;
  afterEach(() => callback?.close());

  const ask = (path: string, host: string) =>
    new Promise<number>((resolve, reject) => {
      request({ host: '127.0.0.1', port: callback!.port, path, headers: { host } }, (answer) => {
        answer.resume().once('end', () => resolve(answer.statusCode!));
      })
        .once('error', reject)
        .end();
    });

  test('takes the token of its state alone, and only under a name of this machine', async () => {
    callback = await waitForCallback();
    const token = callback.token('made-up-state');
    const own = `127.0.0.1:${callback.port}`;
    expect(await ask('/callback?state=other&token=made-up', own)).toBe(404);
    expect(await ask('/callback?state=made-up-state&token=made-up', 'evil.example')).toBe(404);
    expect(await ask('/?state=made-up-state&token=made-up', own)).toBe(404);
    expect(await ask('/callback?state=made-up-state&token=made-up-token', own)).toBe(200);
    expect(await token).toBe('made-up-token');
  });

  test('gives the whole answer to a sign-in of a connection, which may be a refusal', async () => {
    callback = await waitForCallback();
    const answer = callback.query('made-up-state');
    const own = `127.0.0.1:${callback.port}`;
    expect(await ask('/callback?state=other&error=access_denied', own)).toBe(404);
    expect(await ask('/callback?state=made-up-state&error=access_denied&iss=x', own)).toBe(200);
    expect(await answer).toBe('state=made-up-state&error=access_denied&iss=x');
  });

  test('stays up where a page sends what is no address', async () => {
    callback = await waitForCallback();
    for (const line of ['GET // HTTP/1.1', 'GET http://[ HTTP/1.1', 'GET * HTTP/1.1']) {
      const socket = connect(callback.port, '127.0.0.1');
      socket.write(`${line}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1.1 40[04] /);
    }
  });
});
