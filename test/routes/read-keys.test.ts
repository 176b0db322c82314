import { afterAll, beforeAll, expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import { keyScopeOf, pathParameters, type Route } from '#core/http/route.ts';
import { Journal } from '#local/database/journal.ts';
import type { Row } from '#local/database/rows.ts';
import { clientOf, type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import { keepInMemory } from '#test/helpers/services.ts';
import { goodBody, withQuery } from './rows.ts';
import { fill, makeThing, newTenant, type Tenant } from './things.ts';

/** Operations open to keys with the scope `read`, from the route table, change nothing. The test watches the tables. */
const rows = (routes as readonly Route[]).filter((row) => row.auth === 'key' && keyScopeOf(row) === 'read');

let target: LocalTarget;
let home: Tenant;
let key: string;
const written: Row[] = [];
const { append } = Journal.prototype;

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  keepInMemory(target);
  home = await newTenant(target, 'home', 'zebra-crossing');
  key = (await clientOf(target, home.user.key).createApiKey({ body: { name: 'reader', scope: 'read' } })).key;
  // The first request of a key records its last use.
  await clientOf(target, key).getMe({});
  Journal.prototype.append = function (this: Journal, appended: readonly Row[]) {
    written.push(...appended);
    return append.call(this, appended);
  };
});
afterAll(async () => {
  Journal.prototype.append = append;
  await target?.close();
});

const layoutOf = ({ table, pk, sk }: Row): string =>
  `${table} ${[pk, sk]
    .map((part) =>
      part
        .split('#')
        .map((word) => (/^[A-Z][A-Z_]+$/.test(word) ? word : '*'))
        .join('#'),
    )
    .join(' / ')}`;

// A retry would find its own change.
test.for(rows.map((row) => [`${row.method} ${row.path}`, row] as const))(
  '%s changes nothing',
  { retry: 0 },
  async ([, row]) => {
    const params: Record<string, string> = {};
    for (const name of pathParameters(row.path)) params[name] = await makeThing(name, target, home, row, params);
    // Writes are appended in their order: with this one, those of things made before.
    await target.deps.counters.put({ pk: 'TEST', sk: 'LAST' });
    written.length = 0;
    const answer = await request(target, row.method, withQuery(row, fill(row.path, params)), { ...goodBody(row), key });
    // Counters have leases, and codes that sign in for a minute.
    const found = written.filter(({ table }) => table !== 'counters').map(layoutOf);
    expect([answer.status < 500, [...new Set(found)]]).toEqual([true, []]);
  },
);

test('the walk meets rows that send something', () => {
  const sending = rows.filter(({ method }) => method !== 'GET').map(({ operationId }) => operationId);
  expect(sending).toEqual(['deleteSession', 'createSignInCode', 'cliLogout', 'validateAgent', 'previewSchedule']);
});
