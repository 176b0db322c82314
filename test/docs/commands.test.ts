import { describe, expect, test } from 'vitest';
import { blocks, commands, isShell, named, REFUSED, TABS } from './page-commands.ts';
import { NOT_RUN } from './pages.ts';

describe('the blocks of pages', () => {
  test('name their language, so that no command hides in a block that does not run', () => {
    expect(blocks.filter(({ info }) => info === '').map(named)).toEqual([]);
    const others = blocks.filter(({ info }) => !info.startsWith('sh'));
    expect(others.filter(({ text }) => /^\s*(\$ |curl |npm |npx )/m.test(text)).map(named)).toEqual([]);
  });

  test('that are not run are listed, each with its reason', () => {
    const marked = blocks.filter(({ info }) => info === 'sh no-run');
    const listed = NOT_RUN.map(({ page, begins }) => `${page}: ${begins}`);
    const found = marked.map(({ page, text }) => {
      const entry = NOT_RUN.find(({ page: other, begins }) => other === page && text.startsWith(begins));
      return `${page}: ${entry?.begins ?? text}`;
    });
    expect(found.sort()).toEqual(listed.sort());
    expect(
      blocks.filter(({ info }) => info.startsWith('sh') && info !== 'sh no-run' && !isShell(info)).map(named),
    ).toEqual([]);
    expect(blocks.filter(({ info }) => info.includes('tab=') && !TABS.includes(info)).map(named)).toEqual([]);
  });

  test('of storage, tasks and messages show each call in every language, and no program that is not run', () => {
    for (const page of ['docs/storage.md', 'docs/tasks.md', 'docs/messages.md']) {
      const infos = blocks.filter((block) => block.page === page && block.info !== 'json').map(({ info }) => info);
      const calls = infos.length / TABS.length;
      expect(calls).toBeGreaterThanOrEqual(2);
      expect(infos, page).toEqual(Array.from({ length: calls }, () => TABS).flat());
    }
  });

  test('that run start nothing that installs, deploys or goes on', () => {
    const starts = new RegExp(`(?:^|[;&|(]|\\bcommand)\\s*(?:${REFUSED.join('|')})\\s`, 'm');
    expect(starts.test('npm ci')).toBe(true);
    expect(commands.filter(({ text }) => starts.test(text)).map(named)).toEqual([]);
  });

  test('use the variables that the README explains, under the same names', () => {
    const foreign = /\$\{?(URL|KEY|WORKSPACE|API|TOKEN|AGENT|SCHEDULE|BASE_URL|base|url|key|workspace|org)\b/;
    expect(commands.filter(({ text }) => foreign.test(text)).map(named)).toEqual([]);
  });
});
