import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterAll, expect, test } from 'vitest';
import { request, startLocalTarget } from '#test/helpers/platform.ts';

const target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });

afterAll(() => target.close());

test('paths of services that do not exist are nothing of the API', async () => {
  const none = await request(target, 'GET', '/services/3f2504e0-4f89-41d3-9a0c-0305e82c3301/');
  expect(none.status).toBe(404);
});

test('clients that offer HTTP/2 to the API are answered in HTTP/1.1', async () => {
  const { hostname, port } = new URL(target.url);
  const offer = httpRequest({
    ...{ hostname, port, path: '/health', agent: false },
    headers: { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQ' },
  });
  offer.end();
  const [answer] = (await once(offer, 'response')) as [IncomingMessage];
  expect(answer.resume().statusCode).toBe(200);
});
