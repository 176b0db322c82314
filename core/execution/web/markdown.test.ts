import { expect, test } from 'vitest';
import { markdownOf } from './markdown.ts';

const signal = new AbortController().signal;
const pageOf = (html: string, maxCharacters = 1_000_000) =>
  markdownOf(html, { base: 'https://example.com/a/b', maxCharacters, signal });
const markdown = async (html: string) => (await pageOf(html)).markdown;

test.each([
  ['words and   spaces', '<p>a\n  b</p>c', 'a b\n\nc'],
  ['headings', '<h2>A <b>B</b></h2><h6>C</h6>', '## A **B**\n\n###### C'],
  ['emphasis', 'a <em>b</em> <strong>c</strong>, <code>d</code>.', 'a _b_ **c**, `d`.'],
  ['links', '<a href="../c?d=1#e">x</a>', '[x](https://example.com/c?d=1#e)'],
  ['links without an address of the web', '<a href="javascript:alert(1)">x</a> <a href="#y">z</a>', 'x z'],
  ['links without a text', 'a<a href="/b"></a>c', 'ac'],
  [
    'images',
    '<img alt="A cat" src="/cat.png"><img src="/x.png"><img alt="d" src="data:x">',
    '![A cat](https://example.com/cat.png)',
  ],
  ['lists', '<ul><li>a<li>b<ol><li>c</li><li>d</li></ol></ul>e', '- a\n- b\n  1. c\n  2. d\n\ne'],
  ['quotes', '<blockquote>a</blockquote>b', '> a\n\nb'],
  ['code', '<pre>a\n  b &lt;</pre>', '```\na\n  b <\n```'],
  ['lines', 'a<br>b<hr>c', 'a\nb\n\n---\n\nc'],
  ['tables', '<table><tr><th>a<th>b<tr><td>1<td>2</table>', '| a | b |\n| --- | --- |\n| 1 | 2 |'],
  ['no scripts', '<script>a("<p>")</script><style>b{}</style><noscript>c</noscript><svg><text>d</text></svg>e', 'e'],
  ['nothing hidden', '<p hidden>a</p><div style="Display : none">b<p>c</p></div><i aria-hidden="true">d</i>e', 'e'],
  ['comments', 'a<!-- b --><![CDATA[c]]>d', 'ad'],
  ['what is never closed', '<p>a<b>b<a href="/c">c', 'a**b[c](https://example.com/c)'],
  ['entities', '&lt;b&gt; &#x41;&euro;&nosuch;', '<b> A€&nosuch;'],
  ['nothing', '', ''],
])('%s', async (_, html, expected) => {
  const found = await markdown(html);
  // The end of a page closes what is open.
  expect(found.startsWith(expected), found).toBe(true);
});

test('the title is apart', async () => {
  expect(await pageOf('<html><head><title> A\n B </title></head><body>c')).toEqual({
    title: 'A B',
    markdown: 'c',
    isCut: false,
  });
});

test('a long page is cut', async () => {
  const page = await pageOf('<p>word</p>'.repeat(10_000), 5000);
  expect(page.isCut).toBe(true);
  expect(page.markdown.length).toBeLessThanOrEqual(5100);
});

test.each([
  ['a million open elements', '<div>'.repeat(1_000_000)],
  ['a million open inline elements', '<b>'.repeat(1_000_000)],
  ['elements that do not match', '<b>'.repeat(500_000) + '</i>'.repeat(700_000)],
  ['a million lists', '<ul><li>'.repeat(500_000)],
  ['a million attributes', `<p ${'a=b '.repeat(1_000_000)}>x`],
  ['different attributes', `<p ${Array.from({ length: 400_000 }, (_, i) => `a${i}=b`).join(' ')}>x`],
  ['a tag that never ends', `<p ${'x'.repeat(5_000_000)}`],
  ['a comment that never ends', `<!--${'-'.repeat(5_000_000)}`],
  ['text without an end', '&'.repeat(5_000_000)],
  ['open brackets', '<'.repeat(5_000_000)],
  ['links', '<a href=x>y</a>'.repeat(330_000)],
  ['forms', '<form>'.repeat(800_000)],
  ['styles', `<p style="${'display '.repeat(500_000)}">x`],
  ['closed elements', '<i></i>'.repeat(700_000)],
])('%s leave the process responsive', { timeout: 60_000 }, async (_, html) => {
  // Counts turns of the event loop: a parser that holds it has none.
  let ticks = 0;
  let isDone = false;
  const count = () => {
    ticks += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const page = await pageOf(html);
  isDone = true;
  expect(page.markdown.length).toBeLessThan(1_100_000);
  expect(ticks > 20 || page.isCut, `${ticks} ticks`).toBe(true);
});
