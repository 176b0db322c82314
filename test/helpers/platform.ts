import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { strToU8, zipSync } from 'fflate';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { type Client, createClient } from '#core/api/client.ts';
import type { PlanName } from '#core/base/plans.ts';
import { grantCreditsTo, setPlan } from '#core/billing/operator/operate.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { type LocalConfig, parseLocalConfig } from '#local/config.ts';
import type { ScriptedStripeServer } from '#local/scripted-stripe/server.ts';
import { startLocalServer } from '#local/server.ts';
import { makeDue } from './schedules.ts';
import { type ScriptedLlm, startScriptedLlm } from './scripted-llm/server.ts';
import { addMember, addUser, type TestUser } from './users.ts';

/** Platform under test, as the suites of `test/e2e` use it. */
export interface Target {
  /** URL without a slash at the end. */
  readonly url: string;
  /** API key of the owner of workspace {@link Target.slug}. */
  readonly key: string;
  readonly slug: string;
  /** Creates another user with a personal workspace. */
  addUser(slug: string): Promise<TestUser>;
  addMember(user: TestUser, workspaceId: string): Promise<void>;
  /** API key of the operator; tests that need it are skipped without it. */
  readonly operatorKey: string;
  /** Sets the plan of a workspace, as the operator. */
  setPlan(workspaceId: string, plan: PlanName): Promise<void>;
  /** Grants credits to a workspace in cents, as the operator. */
  grantCredits(slug: string, cents: number): Promise<void>;
  /** Fires a schedule as if it were due in the current minute. */
  fire(workspaceId: string, scheduleId: string): Promise<void>;
  /** Milliseconds by which usage lags behind the ends of runs. @default 0 */
  readonly usageLagMs?: number;
  /** Does the work of each minute on hosts whose clock does not tick by itself. */
  readonly passMinute?: () => Promise<void>;
  /** Whether the host learns that a client has closed the stream of an answer: AWS Lambda tells a function nothing. @default true */
  readonly seesClientsLeave?: boolean;
  /** Scripted model behind all providers. */
  readonly llm: ScriptedLlm;
  /** Scripted payment provider for buying credits; tests that need it are skipped without it. */
  readonly stripe: ScriptedStripeServer;
  /** Interpreters in the sandbox; tests that need a missing one are skipped. */
  readonly interpreters: { readonly python?: string; readonly node?: string };
  /** Connection to services; tests of running services are skipped without it. */
  readonly services?: {
    /** Returns where the host of an address listens, in plain HTTP. */
    connection(address: URL): { readonly host: string; readonly port: number };
  };
  close(): Promise<void>;
}

export interface LocalTarget extends Target {
  readonly deps: AllDeps;
  readonly dataFolder: string;
}

/** Starts a whole platform on a free port with its own data folder and log level `error`. */
export async function startLocalTarget(
  settings: Record<string, string> = {},
  change: Partial<LocalConfig> = {},
): Promise<LocalTarget> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-e2e-'));
  const llm = await startScriptedLlm();
  const operatorKey = crypto.randomUUID();
  const config = parseLocalConfig({
    PLATFORM_PORT: '0',
    PLATFORM_DATA: folder,
    PLATFORM_LOG_LEVEL: 'error',
    PLATFORM_WORKSPACE: 'acme',
    PLATFORM_OPERATOR_KEY: operatorKey,
    // All tests share one address that sends many requests without a key.
    PLATFORM_ADDRESS_LIMIT: '100000',
    // Receivers of the tests listen on this machine.
    PLATFORM_OUTBOUND_HOSTS: '127.0.0.1',
    ...llm.settings,
    ...settings,
  });
  const server = await startLocalServer({ ...config, ...change });
  const { deps } = server;
  const key = await bootstrap(deps);
  const { kind, interpreters } = await deps.sandbox.status();
  return {
    url: server.url,
    key: key!,
    slug: config.workspaceSlug,
    operatorKey,
    deps,
    dataFolder: folder,
    addUser: (slug) => addUser(deps, slug),
    addMember: (user, workspaceId) => addMember(deps, user, workspaceId),
    setPlan: async (workspaceId, plan) => void (await setPlan(deps, workspaceId, plan)),
    grantCredits: async (slug, cents) => void (await grantCreditsTo(deps, `${slug}=${cents}`)),
    fire: async (workspaceId, scheduleId) => void (await makeDue(deps, workspaceId, scheduleId)),
    llm,
    stripe: deps.scriptedStripe!,
    interpreters,
    // Browsers also resolve `*.localhost` to this machine.
    services: kind === 'none' ? undefined : { connection: ({ port }) => ({ host: '127.0.0.1', port: Number(port) }) },
    async close() {
      await server.close(true);
      await llm.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Skips a test or `describe` on platforms that do not use the scripted model. */
export const needsModel = (target: Target): unknown => target.llm;

/** Zips text files; the same files always give the same bytes. */
export const zipOf = (files: Readonly<Record<string, string>>): Uint8Array =>
  zipSync(Object.fromEntries(Object.entries(files).map(([path, text]) => [path, strToU8(text)])), {
    level: 1,
    mtime: new Date('1980-01-01T00:00:00'),
  });

export const clientOf = (target: Pick<Target, 'url' | 'key'>, key = target.key, workspaceId?: string): Client =>
  createClient({ baseUrl: target.url, key, workspaceId });

/** Creates a form with a bundle in the part `field`. */
export function bundleForm(zip: Uint8Array, field = 'file'): FormData {
  const form = new FormData();
  form.set(field, new Blob([zip as Uint8Array<ArrayBuffer>], { type: 'application/zip' }), 'bundle.zip');
  return form;
}

/** Publishes a tool with this code. */
export async function publishCode(
  client: Client,
  name: string,
  files: Readonly<Record<string, string>>,
  manifest: Readonly<Record<string, unknown>> = {},
) {
  const body = { name, type: 'tool', description: `tests ${name}`, required_secrets: [], ...manifest };
  const { agent } = await client.createAgent({ body });
  const upload = await client.uploadBundle({ params: { id: agent.id }, body: bundleForm(zipOf(files)) });
  return { agent, upload };
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed body if it is JSON, otherwise its text. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  readonly body: any;
}

/** Paths whose answers follow from ended runs. */
const OF_ENDED_RUNS = /^\/(usage|author-usage|agents)(?=[/?]|$)|\/(metrics|budgets|overview|logs)\b/;

/** Sends one request with `json` as its body. */
export async function request(
  target: Pick<Target, 'url' | 'usageLagMs'>,
  method: string,
  path: string,
  {
    key,
    json,
    headers,
    body,
  }: { key?: string; json?: unknown; headers?: Record<string, string>; body?: RequestInit['body'] } = {},
): Promise<Answer> {
  if (target.usageLagMs && method === 'GET' && OF_ENDED_RUNS.test(path)) await setTimeout(target.usageLagMs);
  const response = await fetch(target.url + path, {
    method,
    headers: {
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(json !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: json === undefined ? body : JSON.stringify(json),
  });
  const text = await response.text();
  const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '') && text !== '';
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}
