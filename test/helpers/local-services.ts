import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { BootDocument, InstanceReport, ServiceOrder, ServiceReport } from '#core/ports/service-host.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { ServiceFront } from '#local/services/front.ts';
import { LocalServiceHost } from '#local/services/local-service-host.ts';
import { NamespaceSandbox } from '#runner/sandbox/namespace-sandbox.ts';
import { zip } from './zip.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const limits = { memoryBytes: 256 * 1024 ** 2, diskBytes: 32 * 1024 ** 2, fileBytes: 32 * 1024 ** 2, processes: 64 };

/** App that echoes requests, bodies and upgraded connections, and exits on request. */
export const ECHO_APP = `
const http = require('node:http');
console.log('INFO starting with ' + process.env.TOKEN);
http.createServer((request, response) => {
  if (request.url === '/end') process.exit(3);
  if (request.url === '/echo') return request.pipe(response);
  const { method, url, headers } = request;
  response.setHeader('set-cookie', 'session=1');
  response.end(JSON.stringify({ method, url, headers, version: process.env.VERSION, pid: process.pid }));
}).on('upgrade', (request, socket, head) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n');
  socket.write(head);
  socket.pipe(socket);
}).listen(process.env.PORT);
`;

/**
 * Starts services on this machine with real sandboxes, behind a server that answers all other requests with `the API`.
 * `problem` is the reason why services cannot run here.
 */
export async function startServiceHost() {
  const root = mkdtempSync(join(tmpdir(), 'service-host-test-'));
  const blobs = new FolderBlobs(join(root, 'blobs'));
  const sandbox = await createLocalSandbox({ cacheFolder: join(root, 'cache'), blobs, prestart: 0 });
  const problem = (await sandbox.status()).problem;
  const reports: ServiceReport[] = [];
  const documents = new Map<string, Partial<BootDocument>>();
  const host = new LocalServiceHost({
    sandbox: sandbox instanceof NamespaceSandbox ? sandbox : { problem: String(problem) },
    folder: join(root, 'logs'),
    clock: new SystemClock(),
    ids: new SystemIds(),
    log: silent,
    platformUrl: 'http://127.0.0.1:9',
    addressOf: (label) => `http://${label}.localhost:4280`,
    async boot(serviceId, token) {
      const document = documents.get(token);
      if (!document) throw new PlatformError('UNAUTHORIZED', 'This token is no longer good.');
      return {
        serviceId,
        workspaceId: 'w',
        revision: 0,
        agent: 'acme/bot@v1',
        app: { kind: 'argv', argv: ['node', 'app.js'] },
        secrets: {},
        port: 3000,
        bundle: { key: '' },
        egress: 'none',
        limits,
        ...document,
        env: { PORT: '3000', ...document.env },
      };
    },
    async take(more) {
      reports.push(...more);
    },
  });
  const front = new ServiceFront({
    host,
    domain: 'localhost',
    trustProxy: false,
    clientOf: ({ socket }) => socket.remoteAddress,
  });
  front.isComplete();
  const server = createServer((request, response) => {
    if (!front.request(request, response)) response.end('the API');
  }).on('upgrade', (request, socket, head) => front.upgrade(request, socket, head));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  async function bundleOf(files: Record<string, string>): Promise<string> {
    const key = `bundles/${randomUUID()}`;
    await blobs.put(key, zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
    return key;
  }

  function newOrder(document: Partial<BootDocument>, more: Partial<ServiceOrder> = {}): ServiceOrder {
    const token = randomUUID();
    const order = {
      id: randomUUID(),
      workspaceId: 'w',
      label: `bot-${randomUUID().slice(0, 6)}`,
      revision: 1,
      minInstances: 1,
      maxInstances: 1,
      overlap: true,
      limits,
      ...more,
      token,
    };
    documents.set(token, { ...document, revision: order.revision });
    return order;
  }

  const nextOrder = (before: ServiceOrder, document: Partial<BootDocument>, more: Partial<ServiceOrder> = {}) =>
    newOrder(document, { ...before, ...more, revision: before.revision + 1 });

  const instancesOf = ({ id }: ServiceOrder) =>
    reports.filter((report): report is InstanceReport => report.type === 'instance' && report.serviceId === id);
  const until = <T>(look: () => T) => expect.poll(look, { timeout: 30_000, interval: 50 });
  const isReady = (order: ServiceOrder) =>
    until(() =>
      instancesOf(order).some(({ phase, revision }) => phase === 'ready' && revision === order.revision),
    ).toBe(true);

  async function ask({ label }: { label: string }, path = '/', options: RequestOptions = {}, body?: string) {
    const headers = { host: `${label}.localhost:${port}`, ...(options.headers as object) };
    const request = httpRequest({ host: '127.0.0.1', port, path, agent: false, ...options, headers });
    request.end(body);
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    const content = await text(answer);
    return { status: answer.statusCode, headers: answer.headers, content, json: () => JSON.parse(content) };
  }

  return {
    problem: sandbox instanceof NamespaceSandbox ? undefined : String(problem),
    ...{ host, port, reports, bundleOf, newOrder, nextOrder, instancesOf, until, isReady, ask },
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await host.close();
      await sandbox.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
