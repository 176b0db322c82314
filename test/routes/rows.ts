import * as z from 'zod';
import { isRaw, type Route } from '#core/http/route.ts';
import type { request } from '#test/helpers/platform.ts';

/** What the suites made from the route table must know about single rows. */
export const UNKNOWN_ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';

/** Rows that accept a name that is not used yet. */
export const UPSERTS: readonly string[] = [
  'finishConnection',
  'listDocuments',
  'putDocument',
  'putMemory',
  'putProvider',
];

/** Bodies that the schema alone does not tell. */
const BODIES: Readonly<Record<string, () => object>> = {
  createWorkspace: () => ({ name: `made ${crypto.randomUUID()}` }),
  answerClientRequest: () => ({ answer: 'deny' }),
  updateMember: () => ({ role: 'member' }),
  createCheckout: () => ({ amount_cents: 500 }),
  addCredits: () => ({ amount_cents: 500 }),
  putSecret: () => ({ name: 'A', value: 'v' }),
  createSecret: () => ({ name: 'A', value: 'v' }),
  createTrust: () => ({ repository: 'acme/agents' }),
  createConnection: () => ({ name: 'made', url: 'https://127.0.0.1/mcp' }),
  putProvider: () => ({ base_url: 'https://models.example.com/v1' }),
  putGrant: () => ({ version: 'v1' }),
  putChannel: () => ({ version: 'v1' }),
  createAgent: () => ({ name: 'made', type: 'prompt', description: 'x', prompt: 'x' }),
  validateAgent: () => ({ name: 'made', type: 'prompt', description: 'x', prompt: 'x' }),
  updateAgent: () => ({ description: 'x' }),
  openSession: () => ({ agent: 'home/secretive' }),
  sendSessionMessage: () => ({ input: {} }),
  forkSession: () => ({ after: 0 }),
  scoreRun: () => ({ name: 'helpful', value: 1 }),
  createEval: () => ({ tests: [{ vars: {} }] }),
  createBulk: () => ({ action: 'cancel', filter: {}, dry_run: true }),
  createChatLink: () => ({ agent: 'home/secretive', kind: 'form' }),
  createBudget: () => ({ scope_type: 'workspace', window: 'daily', soft_limit_usd: 1000 }),
  deployService: () => ({ agent: 'hosted' }),
  markMessagesSeen: () => ({ until: '2026-11-23T09:30:00Z' }),
  previewSchedule: () => ({ cron: '0 9 * * *' }),
  runAgUi: () => ({
    threadId: `thread-${crypto.randomUUID()}`,
    runId: crypto.randomUUID(),
    messages: [{ id: 'm1', role: 'user', content: 'x' }],
  }),
  createSchedule: () => ({ agent: 'secretive', cron_expression: '0 9 * * *' }),
};

interface Shape {
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Shape[];
  readonly minimum?: number;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
}

/** The smallest value of a JSON schema, with `text` in its strings. */
function smallest(shape: Shape, text: string): unknown {
  if (shape.enum) return shape.enum[0];
  if (shape.anyOf) return smallest(shape.anyOf[0]!, text);
  if (shape.type === 'object') {
    const required = (shape.required ?? []).map((name) => [name, smallest(shape.properties![name]!, text)]);
    return Object.fromEntries(required);
  }
  if (shape.type === 'array') return [];
  if (shape.type === 'string') return { email: 'x@example.com', uuid: UNKNOWN_ID }[shape.format ?? ''] ?? text;
  return shape.type === 'boolean' ? true : (shape.minimum ?? 1);
}

/** The smallest JSON body that the row accepts, with `text` in its strings. */
export function jsonBody({ request, operationId }: Route, text = 'x'): unknown {
  if (request?.body === undefined || isRaw(request.body)) return undefined;
  return (
    BODIES[operationId]?.() ??
    smallest(z.toJSONSchema(request.body, { io: 'input', unrepresentable: 'any' }) as Shape, text)
  );
}

/** A body that the row accepts, so that nothing but the thing under test is wrong. */
export function goodBody(row: Route): Pick<Parameters<typeof request>[3] & object, 'json' | 'body'> {
  if (row.operationId === 'patchDocument' || row.operationId === 'putDocument') return { json: {} };
  if (row.operationId === 'uploadBundle') {
    const body = new FormData();
    body.set('file', new Blob(['PK']), 'bundle.zip');
    return { body };
  }
  return row.request?.body === undefined ? {} : { json: jsonBody(row) ?? {} };
}
export const withQuery = (row: Route, path: string): string =>
  row.operationId === 'previewAgent' ? `${path}?name=xx` : path;
