import { afterAll, describe, expect, test } from 'vitest';
import { ECHO_APP, startServiceHost } from '#test/helpers/local-services.ts';

const { problem, close, host, reports, bundleOf, newOrder, nextOrder, instancesOf, until, isReady, ask } =
  await startServiceHost();
afterAll(close);

describe.skipIf(problem !== undefined)('a service on this machine, further', () => {
  test('without overlap the old instance has ended before the new one starts', async () => {
    const bundle = { key: await bundleOf({ 'app.js': ECHO_APP }) };
    const first = newOrder({ bundle }, { overlap: false });
    await host.deploy(first);
    await isReady(first);
    const second = nextOrder(first, { bundle });
    await host.update(second);
    await isReady(second);
    const ended = reports.find((report) => report.type === 'ended' && report.serviceId === first.id);
    const begun = instancesOf(second).find(({ revision }) => revision === 2);
    expect(ended!.at).toBeLessThanOrEqual(begun!.startedAt);
    await host.remove(first);
  });

  test('instances take turns', async () => {
    const bundle = {
      key: await bundleOf({
        'app.js': `const me = Math.random();${ECHO_APP.replace('process.pid', 'me')}`,
      }),
    };
    const order = newOrder({ bundle }, { minInstances: 3, maxInstances: 3 });
    await host.deploy(order);
    await until(
      () =>
        new Set(
          instancesOf(order)
            .filter(({ phase }) => phase === 'ready')
            .map(({ instanceId }) => instanceId),
        ).size,
    ).toBe(3);
    const answered = new Set<number>();
    for (let i = 0; i < 9; i++) answered.add((await ask(order)).json().pid);
    expect(answered.size).toBe(3);
    await host.remove(order);
  });

  test.each([
    [
      'takes the port of the gateway',
      `require('node:http').createServer().listen(8080)`,
      /Port 8080 belongs to the platform/,
    ],
    ['is not there', undefined, /Cannot find module/],
    [
      'uses too much memory',
      `const all = []; setInterval(() => all.push(Buffer.alloc(32e6, 1)), 5)`,
      /more than its 256 MB of memory|sandbox of the app ended/,
    ],
    [
      'leaves a child behind',
      `require('node:child_process').spawn('sleep', ['1000'], { detached: true }); process.exit(0)`,
      /A service must keep running/,
    ],
  ])('an app that %s ends with the reason', async (_, script, message) => {
    const order = newOrder({
      bundle: { key: await bundleOf(script === undefined ? { 'b.js': '' } : { 'app.js': script }) },
    });
    await host.deploy(order);
    const reasons = () =>
      reports.flatMap((report) => {
        if (report.serviceId !== order.id) return [];
        if (report.type === 'ended') return report.reason === 'crashed' ? [report.message] : [];
        return report.type === 'instance' && report.lastEnd ? [report.lastEnd.message] : [];
      });
    await until(() => reasons().join('\n')).toMatch(message);
    await host.remove(order);
  });

  test('a log without end stops neither the app nor anything else', async () => {
    const script = `${ECHO_APP}; setInterval(() => process.stdout.write('INFO flood '.repeat(9000) + '\\n'), 1)`;
    const order = newOrder({ bundle: { key: await bundleOf({ 'app.js': script }) } });
    await host.deploy(order);
    await isReady(order);
    await until(async () =>
      (await host.logs(order, { limit: 500 })).map(({ message }) => message.slice(0, 60)).join('\n'),
    ).toContain('bytes left out');
    expect((await ask(order)).status).toBe(200);
    await host.remove(order);
  });
});
