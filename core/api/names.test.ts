import { expect, test } from 'vitest';
import * as z from 'zod';
import { printableLine } from '#core/http/printable-line.ts';
import { isRaw, type Route } from '#core/http/route.ts';
import { routes } from './routes.ts';

/** Members of requests that people read as a name. Those that only look something up are not among them. */
const NAMES = ['name', 'title', 'display_name', 'client_name', 'service_name', 'project', 'label'];

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

/** The members of an object, also of one that may be absent or is changed after it was read. */
function membersOf(schema: z.core.$ZodType): Record<string, z.core.$ZodType> {
  if (schema instanceof z.ZodObject) return schema.shape;
  const { innerType, in: before } = schema._zod.def as Partial<Record<'innerType' | 'in', z.core.$ZodType>>;
  const inner = innerType ?? before;
  return inner ? membersOf(inner) : {};
}

test('every name that a request sets is one line of printable text', () => {
  const found: string[] = [];
  for (const { operationId, request: { body } = {} } of routes as readonly Route[]) {
    for (const [member, schema] of Object.entries(body && !isRaw(body) ? membersOf(body) : {})) {
      if (!NAMES.includes(member)) continue;
      found.push(`${operationId}.${member}`);
      for (const text of HOSTILE) {
        expect(z.safeParse(schema, text).success, `${operationId} takes ${JSON.stringify(text)} as ${member}`).toBe(
          false,
        );
      }
    }
  }
  expect(found).toEqual(
    expect.arrayContaining([
      'createWorkspace.name',
      'updateOrg.name',
      'createApiKey.name',
      'createTask.title',
      'sendMessage.title',
    ]),
  );
});

test('names in any script are taken, without the space around them', () => {
  const name = printableLine(40);
  expect(name.parse('  Ærøskøbing 東京 👩‍🚀 مرحبا \r\n')).toBe('Ærøskøbing 東京 👩‍🚀 مرحبا');
  expect(name.safeParse('\r\n').error?.issues[0]?.message).toBe('must not be empty');
  expect(name.safeParse('x'.repeat(41)).error?.issues[0]?.message).toBe('must have at most 40 characters');
  expect(name.safeParse('a\nb').error?.issues[0]?.message).toContain('must be one line of printable text');
});
