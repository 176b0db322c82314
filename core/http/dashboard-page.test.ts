import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { dashboardPage } from './dashboard-page.ts';

test('the page of the dashboard has the path and the command of its host', () => {
  const html = readFileSync(join(import.meta.dirname, '../../dashboard/index.html'), 'utf8');
  const page = dashboardPage(html, { basePath: '/below/dashboard/', command: 'platform' });
  expect(page).toContain('<base href="/below/dashboard/"');
  expect(page).toContain('<meta name="platform-command" content="platform"');
  expect(page).not.toContain('npx');
});
