import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { ECHO_APP, startServiceHost } from '#test/helpers/local-services.ts';

/* Faults that an app may cause in its sandbox, and their outcomes; complements `local-service-host.heavy.test.ts`. */

const { problem, close, host, port, reports, bundleOf, newOrder, instancesOf, until, isReady, ask } =
  await startServiceHost();
afterAll(close);

/** Returns the processes of this machine whose command line contains the text. */
const processesWith = (text: string): string[] =>
  readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text);
    } catch {
      return false;
    }
  });

/** Deploys an app with an argument that identifies its processes. */
async function deploy(script: string) {
  const mark = `mark-${randomUUID()}`;
  const app = { kind: 'argv', argv: ['node', 'app.js', mark] } as const;
  const order = newOrder({ app, bundle: { key: await bundleOf({ 'app.js': script }) } });
  await host.deploy(order);
  return { order, mark };
}

describe.skipIf(problem !== undefined)('an app that', () => {
  test('never listens is answered for with the reason, and stopped like any other', async () => {
    const { order, mark } = await deploy('setInterval(() => {}, 1000)');
    await until(() => processesWith(mark).length).toBeGreaterThan(0);
    expect((await ask(order)).json().error).toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      message: 'The app is starting and does not listen on port 3000 (the variable PORT) yet.',
    });
    await host.remove(order);
    expect(processesWith(mark)).toEqual([]);
  });

  test('listens late is ready when it does', async () => {
    const { order } = await deploy(`setTimeout(() => { ${ECHO_APP} }, 2000)`);
    await until(() => instancesOf(order).length).toBeGreaterThan(0);
    expect((await ask(order)).status).toBe(503);
    await isReady(order);
    expect((await ask(order)).status).toBe(200);
    expect(instancesOf(order).at(-1)).toMatchObject({ restarts: 0, failures: 0 });
    await host.remove(order);
  });

  test('ignores SIGTERM is killed after its grace period, with all that it started', async () => {
    const { order, mark } = await deploy(`
      process.on('SIGTERM', () => console.log('INFO no'));
      require('node:child_process').spawn('bash', ['-c', 'trap "" TERM; while :; do sleep 1; done', process.argv[2]], { detached: true });
      ${ECHO_APP}`);
    await isReady(order);
    await until(() => processesWith(mark).length).toBeGreaterThan(1);
    await host.pause(order);
    await until(() => reports.some(({ type, serviceId }) => type === 'ended' && serviceId === order.id)).toBe(true);
    expect(processesWith(mark)).toEqual([]);
    expect((await host.logs(order, { limit: 10 })).map(({ message }) => message)).toContain('INFO no');
    await host.remove(order);
  });

  test('fills its disk gets an error, goes on, and takes no space of others', async () => {
    const script = `
      const fs = require('node:fs');
      let problem;
      for (let i = 0; problem === undefined && i < 1000; i++) {
        try { fs.writeFileSync('/tmp/' + i, Buffer.alloc(1e6)); } catch (error) { problem = error.code; }
      }
      require('node:http').createServer((_, response) => response.end(String(problem))).listen(process.env.PORT);`;
    const [full, other] = [await deploy(script), await deploy(ECHO_APP)];
    await Promise.all([isReady(full.order), isReady(other.order)]);
    expect((await ask(full.order)).content).toMatch(/ENOSPC|EDQUOT/);
    expect((await ask(other.order)).status).toBe(200);
    expect(instancesOf(full.order).at(-1)).toMatchObject({ restarts: 0 });
    await Promise.all([host.remove(full.order), host.remove(other.order)]);
  });

  test('makes as many processes as it can reaches its limit, and others go on', async () => {
    const script = `
      const { spawn } = require('node:child_process');
      let made = 0, failed = 0;
      for (let i = 0; i < 300; i++) {
        spawn('sleep', ['1000']).on('spawn', () => { made += 1; }).on('error', () => { failed += 1; });
      }
      require('node:http').createServer((_, response) => response.end(JSON.stringify({ made, failed }))).listen(process.env.PORT);`;
    const [many, other] = [await deploy(script), await deploy(ECHO_APP)];
    await isReady(other.order);
    await until(async () => {
      const { content } = await ask(many.order);
      return content.startsWith('{"made"') ? JSON.parse(content).failed : 0;
    }).toBeGreaterThan(0);
    expect((await ask(other.order)).status).toBe(200);
    await Promise.all([host.remove(many.order), host.remove(other.order)]);
    expect(processesWith(many.mark)).toEqual([]);
  });

  test('sends an answer without end is stopped all the same', async () => {
    const { order, mark } = await deploy(`
      require('node:http').createServer((request, response) => {
        if (request.url === '/quick') return response.end('ok');
        const more = () => { while (response.write('x'.repeat(10000))); response.once('drain', more); };
        more();
      }).listen(process.env.PORT);`);
    await isReady(order);
    const endless = httpRequest({
      host: '127.0.0.1',
      port,
      headers: { host: `${order.label}.localhost` },
      agent: false,
    });
    endless.on('error', () => {}).end();
    const [answer] = (await once(endless, 'response')) as [IncomingMessage];
    const broken = new Promise((resolve) => answer.on('error', () => {}).once('close', resolve));
    answer.resume();
    expect((await ask(order, '/quick')).content).toBe('ok');
    await host.remove(order);
    await broken;
    expect(answer.complete).toBe(false);
    expect(processesWith(mark)).toEqual([]);
  });
});

describe.skipIf(problem !== undefined)('a request', () => {
  test('with dots, another host or another id in its path reaches the one service that it names, or none', async () => {
    const named = (name: string) =>
      `require('node:http').createServer((request, response) => response.end('${name} ' + request.url)).listen(process.env.PORT)`;
    const [a, b] = [(await deploy(named('a'))).order, (await deploy(named('b'))).order];
    await Promise.all([isReady(a), isReady(b)]);
    /** Sends the path unchanged: HTTP clients normalize dot segments. */
    const raw = async (path: string, hostname: string): Promise<string> => {
      const socket = connect(port, '127.0.0.1');
      socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`);
      const answer = (await socket.setEncoding('utf8').toArray()).join('');
      return answer.slice(answer.indexOf('\r\n\r\n') + 4).replaceAll(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, '');
    };
    const own = `127.0.0.1:${port}`;
    const cases: [string, string, string][] = [
      [`/services/${a.id}/../${b.id}/x`, own, `a /../${b.id}/x`],
      [`/services/${a.id}/..%2f${b.id}/x`, own, `a /..%2f${b.id}/x`],
      [`/services/${a.id}/%2e%2e/%2e%2e/etc/passwd`, own, 'a /%2e%2e/%2e%2e/etc/passwd'],
      [`/services/${a.id}//other.example/`, own, 'a //other.example/'],
      [`/services/${a.id}?x=/services/${b.id}`, own, `a /?x=/services/${b.id}`],
      // The host name takes precedence over the path.
      [`/services/${a.id}/x`, `${b.label}.localhost`, `b /services/${a.id}/x`],
      [`http://${b.label}.localhost/x`, `${a.label}.localhost`, `a http://${b.label}.localhost/x`],
      // None of these is an address of a service.
      [`/services/../services/${a.id}/x`, own, 'the API'],
      [`//services/${a.id}/x`, own, 'the API'],
      [`/services/${a.id.toUpperCase()}/x`, own, 'the API'],
      [`/services/${a.id}%2f..`, own, 'the API'],
      [`/services/${a.id}x/`, own, 'the API'],
    ];
    for (const [path, hostname, wanted] of cases) expect([path, await raw(path, hostname)]).toEqual([path, wanted]);
    for (const hostname of [`${a.label}.localhost.`, `x.${a.label}.localhost`, `${a.label}`, `.localhost`]) {
      expect(await raw('/x', hostname)).not.toMatch(/^[ab] /);
    }
    await Promise.all([host.remove(a), host.remove(b)]);
  });
});
