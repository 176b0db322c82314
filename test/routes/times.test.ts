import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';
import { clientOf, type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { type Member, membersOf, requestWith } from './members.ts';
import { UNKNOWN_ID } from './rows.ts';

/** Every time that a request can name, from the route table, with values at and beyond the bounds (`docs/interface/identifiers.md#times`). */
const rows = routes as readonly Route[];
const members = rows.flatMap(membersOf);
const titled = (list: readonly Member[]) =>
  list.map((member) => [`${member.row.operationId} ${member.part}.${member.path.join('.')}`, member] as const);

const BEYOND = [
  '0000-01-01T00:00:00Z',
  '0000-01-01T00:00:00+23:59',
  '0001-01-01T00:00:00Z',
  '1969-12-31T23:59:59.999Z',
  '1970-01-01T00:00:00+00:01',
  '2999-12-31T23:59:59-00:01',
  '3000-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
  '9999-12-31T23:59:59.999-23:59',
  '+275760-09-13T00:00:00Z',
  '-271821-04-20T00:00:00Z',
  '2016-12-31T23:59:60Z',
  '2026-02-30T00:00:00Z',
  '2026-11-24T24:00:00Z',
  '2026-11-24T05:00:00+24:00',
  '2026-11-24T05:00:00',
  '2026-11-24',
  '1795496400000',
  'NaN',
];
const WITHIN = [
  '1970-01-01T00:00:00Z',
  '2999-12-31T23:59:59.999999999Z',
  '2999-12-31T00:00:00+23:59',
  '2028-02-29T23:59Z',
  '2026-11-24T05:00:00-23:59',
];

let target: LocalTarget;
let owner: TestUser;
const params: Record<string, string> = {};

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  owner = await target.addUser('owner');
  await target.setPlan(owner.workspaceId, 'enterprise');
  const client = clientOf(target, owner.key);
  const body = { name: 'secretive', type: 'prompt', description: 'x', prompt: 'x' };
  const { agent } = await client.createAgent({ body });
  const workspace = { workspace_id: owner.workspaceId };
  await client.createSchedule({ params: workspace, body: { agent: 'secretive', cron_expression: '0 9 * * *' } });
  Object.assign(params, {
    ...workspace,
    id: agent.id,
    org: 'owner',
    agent: 'secretive',
    version: 'v1',
    endpoint: 'run',
  });
});
afterAll(() => target?.close());

const pathOf = ({ path }: Route): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? UNKNOWN_ID));

async function ask(member: Member, value: string) {
  const { query, ...options } = requestWith(member, value);
  const { method } = member.row;
  return request(target, method, pathOf(member.row) + query, { key: owner.key, ...options });
}

const isTime = ({ schema }: Member): boolean => schema.format === 'date-time';

describe.concurrent('a time in a request', () => {
  test.for(titled(members.filter(isTime)))('%s is refused beyond the bounds', async ([, member]) => {
    for (const value of BEYOND) {
      const answer = await ask(member, value);
      const where = `${value}: ${JSON.stringify(answer.body)}`;
      expect(answer.status, where).toBe(400);
      expect(answer.body.error.code, where).toBe('INVALID_INPUT');
      expect(answer.body.error.message, where).toContain(`${member.part}.${member.path.join('.')}: `);
    }
  });

  test.for(titled(members.filter(isTime)))('%s is no fault of the platform at the bounds', async ([, member]) => {
    for (const value of WITHIN) {
      const answer = await ask(member, value);
      expect(answer.status, `${value}: ${JSON.stringify(answer.body)}`).toBeLessThan(500);
    }
  });

  test('the walk finds those of queries, of bodies and inside of members', () => {
    const found = titled(members.filter(isTime)).map(([name]) => name);
    expect(found).toEqual(
      expect.arrayContaining([
        'createApiKey body.expires_at',
        'listUpcoming query.from',
        'createBulk body.filter.to',
        'listAgentLogs query.before',
      ]),
    );
  });
});

/** Numbers, days and months. */
const EXTREMES = [
  '-1',
  '0',
  '1e21',
  '1e308',
  '9007199254740993',
  '0000-01',
  '9999-12',
  '0000-01-01',
  '9999-12-31',
  '9'.repeat(13),
  '0'.repeat(13),
];
const isCounted = ({ part, path, schema }: Member): boolean =>
  schema.type === 'integer' ||
  schema.type === 'number' ||
  schema.format === 'date' ||
  (part !== 'body' && /days|month|date|after|before|deadline|cursor|scheduled_at|last-event-id/.test(path.at(-1)!));

describe.concurrent('a number, a day or a place in a listing', () => {
  test.for(titled(members.filter(isCounted)))('%s never breaks the platform', async ([, member]) => {
    for (const value of EXTREMES) {
      const answer = await ask(member, value);
      // A sandbox or a model may be missing.
      if (member.row.operationId !== 'callAgent') {
        expect(answer.status, `${value}: ${JSON.stringify(answer.body)}`).toBeLessThan(500);
      } else expect(answer.body.error?.code, value).not.toBe('INTERNAL_ERROR');
    }
  });
});
