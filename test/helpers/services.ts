import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { Config } from '#core/base/config.ts';
import { applyServices } from '#core/services/apply.ts';
import { bootDocument } from '#core/services/boot.ts';
import { takeReports } from '#core/services/reports.ts';
import type { Service } from '#core/services/service.ts';
import { INITIAL_STATE } from '#core/services/state.ts';
import { keepServices } from '#core/services/sweep.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { ManualClock } from './manual-clock.ts';
import { type MemoryDeps, memoryDeps } from './memory-deps.ts';
import { MemoryServiceHost } from './memory-service-host.ts';
import { bundleForm, type LocalTarget, zipOf } from './platform.ts';
import { addMember, addUser } from './users.ts';

/** Returns the record of a newly deployed service. */
export const newServiceRecord = (change: Partial<Service> = {}): Service => ({
  id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301',
  workspaceId: '9a0c504e-4f89-41d3-9a0c-0305e82c3302',
  name: 'bot',
  label: 'bot-1a2b3c',
  agentId: '4f89504e-4f89-41d3-9a0c-0305e82c3303',
  agentWorkspaceId: '9a0c504e-4f89-41d3-9a0c-0305e82c3302',
  agentOrg: 'acme',
  agentName: 'bot',
  agentVersion: 'v1',
  agentFirstVersion: 1,
  command: null,
  args: [],
  env: {},
  requiredSecrets: [],
  optionalSecrets: [],
  extraSecrets: [],
  minInstances: 1,
  maxInstances: 1,
  overlap: true,
  autoUpdate: true,
  alertWebhookUrl: null,
  maxRestartFailures: 5,
  ...INITIAL_STATE,
  lastDeployedAt: 0,
  createdBy: 'user',
  createdAt: 0,
  updatedAt: 0,
  ...change,
});

const APP = 'export {};';

/** Makes the platform under test keep services in memory, so that route table suites start no processes. */
export function keepInMemory({ deps }: LocalTarget): void {
  const host = new MemoryServiceHost({ clock: deps.clock, listener: (reports) => takeReports(deps, reports) });
  Object.assign(deps, { serviceHost: host, serviceLogs: host });
}

/** Starts a platform with in-memory services, an owner and a member, and helpers for their requests. */
export const serviceWorld = (settings: Partial<Config> = {}, clock = new ManualClock()) =>
  serviceWorldOn(memoryDeps({ outboundHosts: ['127.0.0.1'], ...settings }, clock));

/** Starts {@link serviceWorld} on existing dependencies, such as their tables. */
export async function serviceWorldOn(plain: MemoryDeps) {
  const host = new MemoryServiceHost({
    clock: plain.clock,
    listener: (reports) => takeReports(deps, reports),
    boot: (id, token) => bootDocument(deps, id, token),
  });
  const deps: MemoryDeps = {
    ...plain,
    serviceHost: host,
    serviceLogs: host,
    wakeServices: (ids) => applyServices(deps, ids),
  };
  const owner = await addUser(deps, 'acme');
  const member = await addUser(deps, 'colleague');
  await addMember(deps, member, owner.workspaceId);
  const app = createWebApp(deps, routes, allHandlers(deps));
  const SERVICES = `/workspaces/${owner.workspaceId}/services`;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  const send = async (method: string, path: string, json?: unknown, key = owner.key): Promise<any> => {
    const isForm = json instanceof FormData;
    const response = await app(
      new Request(`http://127.0.0.1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, ...(!isForm && { 'content-type': 'application/json' }) },
        ...(json !== undefined && { body: isForm ? json : JSON.stringify(json) }),
      }),
    );
    return { ...((await response.json()) as object), status: response.status };
  };
  return {
    deps,
    host,
    owner,
    member,
    send,
    /** Publishes a version of a program with a bundle. Returns its id and the answer to the upload. */
    async publish(manifest: object = {}, key = owner.key) {
      const { agent, ...rest } = await send(
        'POST',
        '/agents',
        {
          name: 'bot',
          type: 'tool',
          run_mode: 'always_on',
          description: 'answers',
          runtime: { command: 'node index.js' },
          required_secrets: [],
          ...manifest,
        },
        key,
      );
      if (agent === undefined) throw new Error(JSON.stringify(rest));
      const upload = await send('POST', `/agents/${agent.id}/upload`, bundleForm(zipOf({ 'index.js': APP })), key);
      if (upload.status !== 200) throw new Error(JSON.stringify(upload));
      return { id: agent.id as string, upload };
    },
    deploy: (body: object, key?: string) => send('POST', SERVICES, body, key),
    /** Sends a request about one service: `service('PATCH', id, {...})`, `service('POST', id + '/restart')`. */
    service: (method: string, path: string, json?: object, key?: string) =>
      send(method, SERVICES + (path === '' || path.startsWith('?') ? path : `/${path}`), json, key),
    /** Runs the comparison that a clock starts each minute. */
    sweep: () => keepServices(deps),
  };
}
