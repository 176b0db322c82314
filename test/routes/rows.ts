import type { Route } from '#core/http/route.ts';
import type { request } from '#test/helpers/platform.ts';

/** What suites that are made of the route table have to know of single rows. */
export const UNKNOWN_ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';

/** What a name that nobody has used yet is for. */
export const UPSERTS: readonly string[] = ['listDocuments', 'putDocument'];

/** A body that the row accepts, so that nothing but the thing under test is wrong. */
export function goodBody(row: Route): Pick<Parameters<typeof request>[3] & object, 'json' | 'body'> {
  const bodies: Record<string, unknown> = {
    createApiKey: { name: 'x' },
    createTask: { title: 'x' },
    createWorkspace: { name: `made ${crypto.randomUUID()}` },
    inviteMember: { email: 'x@example.com' },
    createInvite: { email: 'x@example.com' },
    updateMember: { role: 'member' },
    sendMessage: { title: 'x', body: 'x' },
    putSecret: { name: 'A', value: 'v' },
    createSecret: { name: 'A', value: 'v' },
    updateSecret: { value: 'v' },
    createAgent: { name: 'made', type: 'prompt', description: 'x', prompt: 'x' },
    validateAgent: { name: 'made', type: 'prompt', description: 'x', prompt: 'x' },
    updateAgent: { description: 'x' },
    createUpload: { purpose: 'call' },
    createSchedule: { agent: 'secretive', cron_expression: '0 9 * * *' },
  };
  if (row.operationId === 'patchDocument' || row.operationId === 'putDocument') return { json: {} };
  if (row.operationId === 'uploadBundle') {
    const body = new FormData();
    body.set('file', new Blob(['PK']), 'bundle.zip');
    return { body };
  }
  return row.request?.body === undefined ? {} : { json: bodies[row.operationId] ?? {} };
}
export const withQuery = (row: Route, path: string): string =>
  row.operationId === 'previewAgent' ? `${path}?name=xx` : path;
