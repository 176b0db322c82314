import { describe, expect, test } from 'vitest';
import { BodyBudget, MEMORY_PER_BODY_BYTE } from './body-budget.ts';
import type { HttpRequest } from './message.ts';

const MB = 1024 ** 2;

function requestOf(
  headers: Record<string, string>,
  body: Uint8Array = new Uint8Array(1),
): HttpRequest & { reads: number } {
  const request = {
    reads: 0,
    method: 'POST',
    url: '/acme/agent/v1/run',
    headers: { get: (name: string) => headers[name] ?? null, has: (name: string) => name in headers },
    get body() {
      return (async function* () {
        request.reads += 1;
        yield body;
      })();
    },
    async bytes() {
      request.reads += 1;
      return body;
    },
  };
  return request;
}
const declaring = (bytes: number) => requestOf({ 'content-length': String(bytes) });

describe('a budget for bodies', () => {
  const budget = () => new BodyBudget(10 * MB * MEMORY_PER_BODY_BYTE, 4 * MB);

  test('admits bodies up to its size, and refuses the next one before it is read', async () => {
    const bodies = budget();
    const held = [4, 4, 2].map((megabytes) => bodies.admit(declaring(megabytes * MB)));
    for (const { request } of held) await request.bytes();
    expect(bodies.used).toBe(10 * MB);
    const late = declaring(1);
    await expect(bodies.admit(late).request.bytes()).rejects.toMatchObject({ code: 'HOST_BUSY' });
    expect(() => bodies.admit(late).request.body).toThrow(expect.objectContaining({ code: 'HOST_BUSY' }));
    expect(late.reads).toBe(0);
    held[2]!.end();
    expect(await bodies.admit(late).request.bytes()).toHaveLength(1);
  });

  test('counts a body once, however often it is asked for, and frees it once', async () => {
    const bodies = budget();
    const { request, end } = bodies.admit(declaring(4 * MB));
    expect(bodies.used).toBe(0);
    await request.bytes();
    await Array.fromAsync(request.body!);
    expect(bodies.used).toBe(4 * MB);
    end();
    end();
    expect(bodies.used).toBe(0);
  });

  test('counts nothing for a request that is never read', () => {
    const bodies = budget();
    const { end } = bodies.admit(declaring(4 * MB));
    end();
    expect(bodies.used).toBe(0);
  });

  test('counts a chunked body as the largest one, whatever length it claims as well', async () => {
    const bodies = budget();
    await bodies.admit(requestOf({ 'transfer-encoding': 'chunked', 'content-length': '1' })).request.bytes();
    expect(bodies.used).toBe(4 * MB);
  });

  test('a declared length past the limit of routes takes no more than the largest body', async () => {
    const bodies = budget();
    await bodies.admit(declaring(500 * MB)).request.bytes();
    expect(bodies.used).toBe(4 * MB);
  });

  test.each(['-5', 'NaN', '1e99', ''])(
    'a declared length of "%s" neither frees room nor takes more than its own',
    async (length) => {
      const bodies = budget();
      const { request, end } = bodies.admit(requestOf({ 'content-length': length }));
      await request.bytes();
      expect(bodies.used).toBeGreaterThanOrEqual(0);
      end();
      expect(bodies.used).toBe(0);
    },
  );

  test('must hold at least one body', () => {
    expect(() => new BodyBudget(MB, 4 * MB)).toThrow('do not hold a body');
  });
});
