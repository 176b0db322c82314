import { beforeAll, describe, expect, test } from 'vitest';
import type { Blobs } from '#core/ports/blobs.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (body: Uint8Array | undefined): string | undefined => body && new TextDecoder().decode(body);

async function* chunks(...parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

/** Rules for every adapter of {@link Blobs}, starting with an empty one. */
export function blobsConformance(open: () => Promise<Blobs>): void {
  let blobs: Blobs;
  const read = async (key: string) => {
    const stream = await blobs.stream(key);
    return stream && Buffer.concat(await Array.fromAsync(stream));
  };
  const list = (prefix: string) => Array.fromAsync(blobs.list(prefix));

  beforeAll(async () => {
    blobs = await open();
  });

  test('lists nothing before there is anything', async () => {
    expect(await list('')).toEqual([]);
    expect(await list('some/where')).toEqual([]);
  });

  test('gives back what was put, whole and in chunks', async () => {
    const body = Uint8Array.from({ length: 300_000 }, (_, n) => n % 251);
    await blobs.put('bytes/one', body);
    expect(Buffer.from((await blobs.get('bytes/one'))!).equals(body)).toBe(true);
    expect((await read('bytes/one'))?.equals(body)).toBe(true);
    expect(await blobs.size('bytes/one')).toBe(300_000);
  });

  test('takes chunks, as many as there are', async () => {
    const chunk = Buffer.alloc(4 * 1024 * 1024 + 1, 'abc');
    await blobs.put('chunks/many', chunks(chunk, bytes('middle'), chunk, chunk));
    const whole = Buffer.concat([chunk, bytes('middle'), chunk, chunk]);
    expect(await blobs.size('chunks/many')).toBe(whole.length);
    expect((await read('chunks/many'))?.equals(whole)).toBe(true);
  });

  test('takes nothing at all', async () => {
    await blobs.put('empty/bytes', new Uint8Array());
    await blobs.put('empty/chunks', chunks());
    for (const key of ['empty/bytes', 'empty/chunks']) {
      expect(await blobs.size(key)).toBe(0);
      expect(await blobs.get(key)).toHaveLength(0);
      expect(await read(key)).toHaveLength(0);
    }
  });

  test('replaces what was there', async () => {
    await blobs.put('replaced', bytes('a longer first'));
    await blobs.put('replaced', bytes('second'));
    expect(text(await blobs.get('replaced'))).toBe('second');
  });

  test('a body that breaks off leaves what was there', async () => {
    async function* breaking(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(6 * 1024 * 1024);
      throw new Error('the source broke');
    }
    await blobs.put('broken/replaced', bytes('first'));
    await expect(blobs.put('broken/replaced', breaking())).rejects.toThrow('the source broke');
    await expect(blobs.put('broken/new', breaking())).rejects.toThrow('the source broke');
    expect(text(await blobs.get('broken/replaced'))).toBe('first');
    expect(await list('broken/')).toEqual(['broken/replaced']);
  });

  test('knows nothing of what was never put', async () => {
    expect(await blobs.get('never')).toBeUndefined();
    expect(await blobs.stream('never')).toBeUndefined();
    expect(await blobs.size('never')).toBeUndefined();
    expect(await blobs.get('never/at/all')).toBeUndefined();
  });

  test('deletes, also what is not there', async () => {
    await blobs.put('deleted/a', bytes('a'));
    await blobs.put('deleted/b', bytes('b'));
    await blobs.delete('deleted/a');
    await blobs.delete('deleted/a');
    await blobs.delete('deleted/never/was');
    expect(await blobs.get('deleted/a')).toBeUndefined();
    expect(await list('deleted')).toEqual(['deleted/b']);
    await blobs.delete('deleted/b');
    expect(await list('deleted')).toEqual([]);
    await blobs.put('deleted/a', bytes('again'));
    expect(text(await blobs.get('deleted/a'))).toBe('again');
  });

  test('reads to the end what is deleted meanwhile', async () => {
    await blobs.put('read/on', Buffer.alloc(1_000_000, 'x'));
    const stream = await blobs.stream('read/on');
    await blobs.delete('read/on');
    expect(Buffer.concat(await Array.fromAsync(stream!))).toHaveLength(1_000_000);
  });

  test('lists by prefix, ascending, a key among those that it begins', async () => {
    const keys = [
      'list/A',
      'list/a',
      'list/a-b',
      'list/a.b/c',
      'list/a/b',
      'list/a/b/c',
      'list/a0',
      'list/b',
      'listen',
    ];
    for (const key of keys.toReversed()) await blobs.put(key, bytes(key));
    expect(await list('list')).toEqual(keys);
    expect(await list('list/')).toEqual(keys.slice(0, -1));
    expect(await list('list/a')).toEqual(keys.slice(1, -2));
    expect(await list('list/a/')).toEqual(['list/a/b', 'list/a/b/c']);
    expect(await list('list/a/b')).toEqual(['list/a/b', 'list/a/b/c']);
    expect(await list('list/a.')).toEqual(['list/a.b/c']);
    expect(await list('list/x')).toEqual([]);
    for (const key of keys) expect(text(await blobs.get(key))).toBe(key);
  });

  test('puts and deletes neighbours at once', async () => {
    const rounds = Array.from({ length: 20 }, (_, n) => `busy/folder/${n}`);
    await Promise.all(
      rounds.map(async (key) => {
        await blobs.put(key, bytes(key));
        await blobs.delete(key);
        await blobs.put(key, bytes(key));
      }),
    );
    expect(await list('busy/')).toEqual(rounds.toSorted());
  });

  test('takes the longest key', async () => {
    const key = `${'k'.repeat(200)}/${'l'.repeat(200)}/${'m'.repeat(110)}`;
    await blobs.put(key, bytes('x'));
    expect(await list(key)).toEqual([key]);
  });

  describe('refuses', () => {
    const bad = [
      '',
      '/',
      'a/',
      '/a',
      'a//b',
      '.',
      '..',
      'a/../b',
      'a/./b',
      'a\\b',
      'a b',
      'é',
      'a\0',
      'a+',
      'x'.repeat(201),
      'ab/'.repeat(200),
    ];
    test.each(bad)('the key %j', async (key) => {
      await expect(blobs.put(key, bytes('x'))).rejects.toThrow('blob key');
      await expect(blobs.get(key)).rejects.toThrow('blob key');
      await expect(blobs.stream(key)).rejects.toThrow('blob key');
      await expect(blobs.size(key)).rejects.toThrow('blob key');
      await expect(blobs.delete(key)).rejects.toThrow('blob key');
    });
    test.each(['/', '../', 'a//', 'a/../', 'a b'])('the prefix %j', async (prefix) => {
      await expect(list(prefix)).rejects.toThrow('blob prefix');
    });
  });
}
