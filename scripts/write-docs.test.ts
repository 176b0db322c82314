import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { AWS_SETTINGS } from '#aws/config.ts';
import { CORE_SETTINGS } from '#core/base/config.ts';
import { LOCAL_SETTINGS } from '#local/config.ts';
import { cliPage, deployPage, modelsPage, settingsPage } from './write-docs.ts';

test('variables have one form, and each belongs to one setting', () => {
  const tables = [CORE_SETTINGS, LOCAL_SETTINGS, AWS_SETTINGS];
  const variables = tables.flatMap((table) => Object.values(table).map(({ variable }) => variable));
  expect(new Set(variables).size).toBe(variables.length);
  for (const variable of variables) expect(variable).toMatch(/^(PLATFORM|OTEL)_[A-Z][A-Z0-9_]+$/);
});

test('docs/settings.md is what npm run docs writes', () => {
  const file = new URL('../docs/settings.md', import.meta.url);
  expect(existsSync(file) && readFileSync(file, 'utf8')).toBe(settingsPage());
});

test('the table of docs/models.md is what npm run docs writes', () => {
  const page = readFileSync(new URL('../docs/models.md', import.meta.url), 'utf8');
  expect(page).toBe(modelsPage());
  expect(page).toContain('| `gemini-3.8-flash` |');
});

test('the table of docs/deploy.md is what npm run docs writes', () => {
  const page = readFileSync(new URL('../docs/deploy.md', import.meta.url), 'utf8');
  expect(page).toBe(deployPage());
  expect(page).toContain('| 1 | 0.1.0 |');
});

test('the commands of docs/cli.md are what npm run docs writes', async () => {
  const page = readFileSync(new URL('../docs/cli.md', import.meta.url), 'utf8');
  expect(page).toBe(await cliPage());
  expect(page).toContain('| `schedule trigger <schedule>` |');
});
