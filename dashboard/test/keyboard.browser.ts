import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { describeSite, type Site } from './browser.ts';

/** Returns the focused element if its focus is invisible: no outline on it, its row, or the box of a hidden input. */
const UNSEEN = `(() => {
  const node = document.activeElement;
  if (node === document.body || node.id === 'page') return '';
  const shown = [node, node.nextElementSibling, node.closest('label')?.querySelector('span')].filter((each) => each != null);
  const styles = [...shown.map((each) => getComputedStyle(each)), getComputedStyle(node, '::after')];
  const isSeen = styles.some((style) => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2);
  return isSeen ? '' : node.outerHTML.slice(0, 300);
})()`;
/** Maximum number of tab stops per page. */
const MAX_STOPS = 80;

const hasFocus = async (target: Locator): Promise<boolean> =>
  (await target.and(target.page().locator(':focus')).count()) === 1;

async function seenFocus(page: Page): Promise<void> {
  expect(await page.evaluate(UNSEEN)).toBe('');
}

/** Tabs to `target`. Every stop on the way must have a visible focus. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor();
  const stops: string[] = [];
  while (stops.length < MAX_STOPS) {
    if (await hasFocus(target)) return;
    await page.keyboard.press('Tab');
    await seenFocus(page);
    stops.push(await page.evaluate<string>('document.activeElement.outerHTML.slice(0, 80)'));
  }
  throw new Error(`Tab does not reach ${target}: ${stops.join('\n')}`);
}

async function returnsTo(target: Locator): Promise<void> {
  await expect.poll(() => hasFocus(target)).toBe(true);
}

async function byPalette(page: Page, text: string): Promise<void> {
  await page.keyboard.press('Control+k');
  const dialog = page.getByRole('dialog', { name: 'Search' });
  await dialog.waitFor();
  await page.keyboard.type(text);
  await dialog.getByRole('menuitem').first().waitFor();
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
}

async function publish(site: Site, name: string): Promise<void> {
  await site.client.createAgent({
    body: {
      ...({ name, type: 'prompt', description: 'x', prompt: 'Say {{text}}.' } as const),
      input_schema: {
        type: 'object',
        required: ['text'],
        properties: { text: { type: 'string', title: 'Text' } },
      },
      supported_providers: ['anthropic'],
      required_secrets: [],
    },
  });
  const { workspace } = await site.client.getSession({});
  const body = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
  await site.client.putSecret({ params: { workspace_id: workspace.id }, body });
}

describeSite('with a keyboard alone', (site) => {
  test('a link signs in, an agent is found and run, its run is cancelled and repeated', async () => {
    const name = `says-${crypto.randomUUID().slice(0, 6)}`;
    await publish(site, name);
    const { url } = await site.client.createSignInCode({ body: {} });
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByRole('heading', { level: 1, name: 'acme' }).waitFor();

    await byPalette(page, 'agents');
    await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();
    await page.getByRole('link', { name }).waitFor();
    await page.keyboard.press('/');
    await seenFocus(page);
    await page.keyboard.type(name);
    await page.waitForURL((at) => at.searchParams.get('q') === name);
    await tabTo(page, page.getByRole('link', { name }));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name }).waitFor();

    const text = page.getByLabel(/^Text/);
    await tabTo(page, text);
    await page.keyboard.press('Control+a');
    await page.keyboard.type('[[llm {"hang":true}]]');
    await page.keyboard.press('Control+Enter');
    await tabTo(page, page.getByRole('link', { name: 'Open run' }));
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
    await page.getByRole('button', { name: 'Edit and replay' }).waitFor();
    await page.getByText('Running', { exact: true }).first().waitFor();
    await page.keyboard.press('c');
    await page.getByText('Cancelled', { exact: true }).first().waitFor();

    const first = page.url();
    const edit = page.getByRole('button', { name: 'Edit and replay' });
    await tabTo(page, edit);
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Edit and replay' });
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await returnsTo(edit);
    await seenFocus(page);
    await page.keyboard.press('e');
    await tabTo(page, dialog.getByLabel('Input'));
    await page.keyboard.press('Control+a');
    await page.keyboard.type('{"text": "hello"}');
    await tabTo(page, dialog.getByRole('button', { name: 'Replay with this input' }));
    await page.keyboard.press('Enter');
    await page.waitForURL((at) => at.href !== first);
    await page.getByText('Completed', { exact: true }).first().waitFor();

    await page.keyboard.press('g');
    await page.keyboard.press('r');
    await page.waitForURL(site.at('/acme/runs'));
    const rows = page.locator('main [data-row] a');
    await rows.nth(1).waitFor();
    for (const [key, at] of [
      ['j', 0],
      ['j', 1],
      ['k', 0],
      ['j', 1],
    ] as const) {
      await page.keyboard.press(key);
      await returnsTo(rows.nth(at));
      await seenFocus(page);
    }
    await page.keyboard.press('Enter');
    await page.waitForURL(first);
  });

  test('a secret is made and deleted, and the focus returns from each dialog', async () => {
    const page = await site.open('/acme');
    await page.getByRole('heading', { level: 1, name: 'acme' }).waitFor();
    await byPalette(page, 'settings');
    const secrets = page.getByRole('main').getByRole('link', { name: 'Secrets' });
    await tabTo(page, secrets);
    await page.keyboard.press('Enter');
    const set = page.getByRole('button', { name: 'Set secret' });
    await tabTo(page, set);
    for (const close of ['?', 'Control+k']) {
      await page.keyboard.press(close);
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
      await returnsTo(set);
    }

    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Set a secret' });
    await returnsTo(dialog.getByLabel('Name'));
    const name = `KEY_${crypto.randomUUID().slice(0, 6).toUpperCase()}`;
    await page.keyboard.type(name);
    await tabTo(page, dialog.getByLabel('Value'));
    await page.keyboard.type('made-up');
    await tabTo(page, dialog.getByRole('button', { name: 'Set secret' }));
    await page.keyboard.press('Enter');
    await page.getByRole('row').filter({ hasText: name }).waitFor();
    await returnsTo(set);
    await seenFocus(page);

    const remove = page.getByRole('button', { name: `Delete ${name}` });
    await tabTo(page, remove);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await returnsTo(remove);
    await page.keyboard.press('Enter');
    await tabTo(page, page.getByRole('dialog').getByRole('button', { name: 'Delete secret' }));
    await page.keyboard.press('Enter');
    await remove.waitFor({ state: 'detached' });
    // Its button is gone, so Tab continues inside the page.
    await returnsTo(page.getByRole('main'));
  });
});
