import { beforeAll, expect, test } from 'vitest';
import { describeSite } from './browser.ts';
import { recordRun } from './chain.ts';

/** Attacks that an agent, or a caller of one, may try on the reader. */
const TRICKS = [
  '<img src=x onerror="window.deceived=1"><script>window.deceived=1</script>',
  '</pre></div><style>*{display:none}</style><iframe src="https://evil.example"></iframe>',
  '[sign in](javascript:window.deceived=1) <a href="https://evil.example">your session has ended</a>',
  // Bidirectional overrides, invisible characters and stacked marks.
  'the file \u202egnp.exe is safe \u2066and\u2069 pass\u200bword \u{e0041}tagged',
  `z${'\u0351'.repeat(500)}algo`,
  // Terminal sequences: colours, a title, a link, a cleared screen, a bell, and an erased word.
  '\u001b[31mred\u001b[0m \u001b]0;title\u0007 \u001b]8;;https://evil.example\u001b\\link\u001b]8;;\u001b\\ \u001b[2J\u001b[H\u0008\u0000',
  '\u062e\u0637\u0631 \u05e1\u05db\u05e0\u05d4 12345',
  // One word of a megabyte.
  'a'.repeat(1_000_000),
];
const ALL = TRICKS.join('\n');

describeSite('hostile outputs', (site) => {
  let id: string;
  beforeAll(async () => {
    const { workspaces } = await site.client.listWorkspaces({});
    const workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
    const members = Object.fromEntries(TRICKS.map((trick, index) => [`${trick.slice(0, 300)} ${index}`, trick]));
    const text = { text: ALL.slice(0, 30_000), bytes: ALL.length, is_cut: true } as const;
    const step = { at: Date.now(), span: 1, payload: { tool_name: TRICKS[0]!, more: members } };
    id = await recordRun(site.target, workspaceId, {
      result: {
        status: 'failed',
        ...{ input: members, output: [ALL, members, [TRICKS]], stdout: ALL, stderr: ALL },
        ...{ errorCode: 'LLM_ERROR', errorMessage: TRICKS.slice(0, 7).join('\n'), llmModel: TRICKS[3]! },
        trace: [
          { ...step, event_type: 'tool_call_started' },
          { ...step, event_type: 'tool_call_failed', error_message: TRICKS.slice(0, 7).join(' ') },
        ],
      },
      contents: {
        0: { messages: [{ role: 'tool', tool_name: TRICKS[3]!, ...text }], arguments: text },
        1: { result: { ...text, text: JSON.stringify(TRICKS.slice(0, 7)) } },
      },
    });
  });

  const pages = [
    ['the list of runs', () => '/acme/runs', 'answers@v1'],
    ['the waterfall', () => `/acme/runs/${id}`, 'tool call <img src=x'],
    ['its table', () => `/acme/runs/${id}?view=table`, 'tool call <img src=x'],
    ['what was said in a step', () => `/acme/runs/${id}?span=${spanOf(id)}`, 'Tool result the file \\u{202e}gnp.exe'],
    ['the log', () => `/acme/runs/${id}?tab=logs`, 'password'.slice(0, 4)],
    ['the input', () => `/acme/runs/${id}?tab=input`, '\\u{202e}gnp.exe'],
    ['the output', () => `/acme/runs/${id}?tab=output`, '\\u{202e}gnp.exe'],
    ['the record', () => `/acme/runs/${id}?tab=raw`, '\\u{202e}gnp.exe'],
  ] as const;
  for (const [name, path, shown] of pages) {
    test(`${name} shows them as text, within its box`, async () => {
      const page = await site.open(path(), { viewport: { width: 1280, height: 900 } });
      await page.locator('main').getByText(shown, { exact: false }).first().waitFor();
      for (const width of [1280, 320]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
        // Stacked combining marks overflow their line, but not the scroll container.
        expect(await page.evaluate('document.documentElement.scrollHeight')).toBeLessThan(20_000);
      }
      // Every page test also checks that no other origin was contacted and no policy was violated.
      expect(await page.evaluate('window.deceived')).toBeUndefined();
      expect(await page.locator('main img, main iframe, main script, main style, main form').count()).toBe(0);
      expect(await page.locator('[href*="evil.example"], [href^="javascript:"]').count()).toBe(0);
      expect(await page.title()).not.toMatch(HIDDEN);
      const text = (await page.locator('main').textContent())!;
      expect(text).not.toMatch(HIDDEN);
      expect(text.length).toBeLessThan(700_000);
    });
  }

  test('a line is cut where it is shown, and whole where it is copied', async () => {
    const page = await site.open(`/acme/runs/${id}?tab=logs`);
    const log = page.getByRole('log');
    await log.focus();
    await page.keyboard.press('End');
    await log.getByText('(1000000 characters)').last().waitFor();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ]);
    const chunks = await Array.fromAsync(await file.createReadStream());
    expect(Buffer.concat(chunks as Buffer[]).toString()).toContain(ALL);
  });
});

/** Control characters and those that reorder or hide text; a page must contain none. */
const HIDDEN = /(?![\n\r\t])[\p{C}\p{Zl}\p{Zp}]/u;

/** Returns the span id of the first step of a run, derived from the run id. */
const spanOf = (runId: string): string =>
  (BigInt(`0x${runId.replaceAll('-', '').slice(0, 16)}`) ^ 1n).toString(16).padStart(16, '0');
