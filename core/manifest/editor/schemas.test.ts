import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { describe, expect, test } from 'vitest';
import { EDITOR_SCHEMAS, editorSchema } from './schemas.ts';

const ROOT = join(import.meta.dirname, '../../..');
const FILES: Record<(typeof EDITOR_SCHEMAS)[number], string> = {
  'agent.json': 'examples/*/agent.json',
  'schema-file.json': 'examples/*/schema.json',
  'fixture.json': 'examples/*/tests/fixture-*.json',
};
const validatorOf = (file: keyof typeof FILES) =>
  new Ajv({ strict: false, allErrors: true }).compile(editorSchema(file));

describe.each(EDITOR_SCHEMAS)('the schema of %s', (file) => {
  test('is draft-07 and accepts the examples', () => {
    expect(editorSchema(file).$schema).toBe('http://json-schema.org/draft-07/schema#');
    const validate = validatorOf(file);
    const paths = globSync(FILES[file], { cwd: ROOT });
    expect(paths.length).toBeGreaterThan(4);
    for (const path of paths) {
      const value = JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
      expect(validate({ $schema: './x.json', ...value }), `${path} ${JSON.stringify(validate.errors)}`).toBe(true);
    }
  });

  test('describes every member', () => {
    const missing: string[] = [];
    const look = (schema: unknown, path: string): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const { properties = {}, items, description } = schema as Record<string, object>;
      if (description === undefined && path !== '' && !path.endsWith('[]')) missing.push(path);
      for (const [name, member] of Object.entries(properties)) look(member, `${path}.${name}`);
      look(items, `${path}[]`);
    };
    look(editorSchema(file), '');
    expect(missing).toEqual([]);
  });
});

test.each([
  ['a member that is misspelt', { requierd_secrets: [] }, 'must NOT have additional properties'],
  ['a wrong value', { type: 'robot' }, 'must be equal to one of the allowed values'],
  ['a wrong name', { name: 'Hello World' }, 'must match pattern'],
  ['an unknown setting of a provider', { model_settings: { openai: { heat: 1 } } }, 'must NOT have additional'],
])('%s is marked', (_, members, message) => {
  const validate = validatorOf('agent.json');
  expect(validate({ name: 'hello', description: 'Greets', ...members })).toBe(false);
  expect(validate.errors?.map((error) => error.message).join()).toContain(message);
});
