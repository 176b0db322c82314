import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { wholeProgram } from '../program.ts';
import { COMMANDS, missingSecretsOf, withCommands } from './hints.ts';

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
  ['Get a form with POST /uploads, upload with it.', 'Get a form with `platform api createUpload`, upload with it.'],
  ['see GET /agents?name=x.', 'see `platform api listAgents`.'],
  ['No request is named here.', 'No request is named here.'],
  ['There is no DELETE /nothing/here.', 'There is no DELETE /nothing/here.'],
])('%s', async (text, expected) => {
  expect(await withCommands(text)).toBe(expected);
});

test('names the secrets that an error says are missing', async () => {
  const names = missingSecretsOf('MISSING_SECRETS', 'Secrets not found in workspace: A_KEY, B_KEY.');
  expect(await withCommands('Add them with PUT /workspaces/{id}/secrets.', names)).toBe(
    'Add them with `platform secrets set A_KEY` and `platform secrets set B_KEY`.',
  );
  const ofModel = 'This agent needs an API key of A or B, and the workspace has no secret A_API_KEY or B_API_KEY.';
  expect(missingSecretsOf('LLM_KEY_REQUIRED', ofModel)).toEqual(['A_API_KEY']);
  expect(missingSecretsOf('NOT_FOUND', ofModel)).toEqual([]);
});

const REQUEST = /\b(?:GET|POST|PUT|PATCH|DELETE) \/[a-z]/;

test('every request that a message of the platform names has a command', async () => {
  const root = join(import.meta.dirname, '../..');
  const files = globSync('{core,local,lib,functions,stages,adapters}/**/*.ts', { cwd: root }).filter(
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
  const shown = await Promise.all(texts.map((line) => withCommands(line)));
  expect(shown.filter((line) => REQUEST.test(line))).toEqual([]);
});

test('the commands exist', async () => {
  const program = await wholeProgram();
  expect(Object.keys(COMMANDS).length).toBeGreaterThan(12);
  for (const text of Object.values(COMMANDS)) {
    const [name, second] = text.split(' ');
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
