import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';
import { type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { type Member, membersOf, requestWith } from './members.ts';
import { UNKNOWN_ID } from './rows.ts';

/** Request fields that contain a display name, from the route table (`docs/interface/identifiers.md#names`). */
const NAMES = ['name', 'title', 'display_name', 'client_name', 'service_name', 'project', 'label'];
const isName = ({ part, path, schema }: Member): boolean =>
  part === 'body' && schema.type === 'string' && NAMES.includes(path.at(-1)!);
const names = (routes as readonly Route[])
  .flatMap(membersOf)
  .filter(isName)
  .map((member) => [`${member.row.operationId} ${member.path.join('.')}`, member] as const);

const HOSTILE = [
  'acme\r\nBcc: victim@example.com',
  'a\nb',
  'a\tb',
  'a\u001b]52;c;aGk=\u0007b',
  'a\u0085b',
  'a\u2028b',
  'a\u202eb',
  'a\u2066b',
  'a\ud800b',
];

let target: LocalTarget;
let owner: TestUser;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  owner = await target.addUser('owner');
  await target.setPlan(owner.workspaceId, 'enterprise');
});
afterAll(() => target?.close());

describe('a name in a request', () => {
  test.each(names)('%s is one line of printable text', async (_, member) => {
    const { row, path } = member;
    for (const text of HOSTILE) {
      const { query, ...options } = requestWith(member, text);
      const to = row.path.replace('{workspace_id}', owner.workspaceId).replaceAll(/\{\w+\}/g, UNKNOWN_ID) + query;
      const answer = await request(target, row.method, to, { key: owner.key, ...options });
      const where = `${JSON.stringify(text)}: ${JSON.stringify(answer.body)}`;
      expect(answer.status, where).toBe(400);
      expect(answer.body.error, where).toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining(`body.${path.join('.')}: `),
      });
    }
  });

  test('the walk finds those of workspaces, people, keys, tasks and messages', () => {
    const found = names.map(([name]) => name);
    expect(found).toEqual(
      expect.arrayContaining([
        'createWorkspace name',
        'updateOrg name',
        'joinByInvite name',
        'createApiKey name',
        'createTask title',
        'createTask project',
        'sendMessage title',
      ]),
    );
  });
});
