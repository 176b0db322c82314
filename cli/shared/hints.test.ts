import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { wholeProgram } from '../program.ts';
import { withCommands } from './hints.ts';

test.each([
  ['Add them with PUT /workspaces/{id}/secrets.', 'Add them with `platform secrets set NAME`.'],
  [
    'An owner of the workspace can grant them: PUT /workspaces/1f/grants/acme/triage with {"version":"v1","secrets":["A"],"scopes":[]}',
    'An owner of the workspace can grant them: `platform grants put acme/triage --body \'{"version":"v1","secrets":["A"],"scopes":[]}\'`',
  ],
  [
    'move the service with POST /workspaces/1f/services/2e/update-version.',
    'move the service with `platform service follow 2e`.',
  ],
  ['Deploy it with POST /workspaces/1f/services, or', 'Deploy it with `platform service deploy ORG/AGENT`, or'],
  ['No request is named here.', 'No request is named here.'],
])('%s', (text, expected) => {
  expect(withCommands(text)).toBe(expected);
});

const REQUEST = /\b(?:GET|POST|PUT|PATCH|DELETE) \/[a-z]/;

test('every request that a message of the platform names has a command', () => {
  const root = join(import.meta.dirname, '../..');
  const files = globSync('core/**/*.ts', { cwd: root }).filter(
    (file) => !/\.test\.ts$|\/(routes|property-texts)\.ts$/.test(file),
  );
  const texts = files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      // Skips comments, and descriptions of the OpenAPI document.
      .filter((line) => !/^\s*(\*|\/\/|\/\*)/.test(line) && !/describe\(/.test(line) && REQUEST.test(line))
      .map((line) =>
        line
          .replaceAll(/\$\{JSON[^}]*\}/g, '{}')
          .replaceAll(/\$\{[^}]*\}/g, 'x')
          .trim(),
      ),
  );
  expect(texts.length).toBeGreaterThan(12);
  expect(texts.filter((line) => REQUEST.test(withCommands(line)))).toEqual([]);
});

test('the commands exist', async () => {
  const program = await wholeProgram();
  const source = readFileSync(join(import.meta.dirname, 'hints.ts'), 'utf8');
  const commands = [...source.matchAll(/['"]platform ([a-z]+)(?: ([a-z]+))?/g)];
  expect(commands.length).toBe(12);
  for (const [text, name, second] of commands) {
    const command = program.commands.find((each) => each.name() === name);
    expect(command, text).toBeDefined();
    const isGroup = command!.commands.length > 0;
    if (isGroup)
      expect(
        command!.commands.map((each) => each.name()),
        text,
      ).toContain(second);
  }
});
