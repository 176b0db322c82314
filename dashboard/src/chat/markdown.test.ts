import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, test } from 'vitest';
import Markdown from './markdown.tsx';

const drawn = (text: string) => renderToStaticMarkup(createElement(Markdown, { text, name: 'answer' }));

describe('Markdown', () => {
  test.each([
    ['**bold** and *soft* and ~~gone~~', ['<strong', '>bold</strong>', '<em>soft</em>', '<del>gone</del>']],
    ['# Title', ['<h4', '>Title</h4>']],
    ['1. one\n2. two\n   - three', ['<ol', '<ul', 'three']],
    ['3. three', ['start="3"']],
    ['- [x] done\n- [ ] open', ['☑ ', '☐ ']],
    ['| a | b |\n| --- | ---: |\n| 1 | 2 |', ['<table', '<th scope="col"', 'text-right']],
    ['> said', ['<blockquote']],
    ['`a < b`', ['<code', 'a &lt; b</code>']],
    ['```js\nif (a < b) c();\n```', ['<pre', 'if (a &lt; b) c();']],
    ['[page](https://example.com/a?b=1)', ['href="https://example.com/a?b=1"', 'rel="noopener noreferrer"']],
    ['https://example.com', ['href="https://example.com"']],
    ['a &amp; b', ['a &amp; b']],
    ['first\nsecond', ['<br/>']],
    ['a\\*b', ['a*b']],
  ])('%s', (text, parts) => {
    const html = drawn(text);
    for (const part of parts) expect(html).toContain(part);
  });

  test.each([
    ['an image', '![look](https://elsewhere.example/pixel.png)', /<img/],
    ['a script', '<script>alert(1)</script>', /<script/],
    ['an element with a handler', 'a <img src=x onerror=alert(1)> b', /<img/],
    ['a frame', '<iframe srcdoc="x"></iframe>', /<iframe/],
    ['a link that runs', '[click](javascript:alert(1))', /href/],
    ['a link that runs, in other letters', '[click](JaVaScRiPt:alert(1))', /href/],
    ['a link that runs, by entities', '[click](&#106;avascript:alert(1))', /href/],
    ['a link of data', '[click](data:text/html,hi)', /href/],
    ['a link to a path of this site', '[click](/dashboard/settings)', /href/],
    ['a link by reference', '[click][a]\n\n[a]: javascript:alert(1)', /href/],
    ['an automatic link', '<javascript:alert(1)>', /href/],
    ['a title that ends the attribute', '[a](https://a.example "x" onclick=alert(1)")', /<a [^>]*(onclick|title)=/],
  ])('%s is not drawn', (_, text, forbidden) => {
    expect(drawn(text)).not.toMatch(forbidden);
  });

  test('characters that reorder or hide text are shown as such', () => {
    expect(drawn('a\u202eb\u200bc')).toContain('a\\u{202e}b\\u{200b}c');
  });

  test.each([
    ['quotes within quotes', '>'.repeat(20_000)],
    ['lists within lists', Array.from({ length: 60 }, (_, depth) => `${'  '.repeat(depth)}- a`).join('\n')],
    ['a long text', 'word '.repeat(20_000)],
  ])('%s without end are shown as they are', (_, text) => {
    expect(drawn(text)).toMatch(/^<div[^>]*><pre/);
  });

  test.each([['['], ['**a'], ['`'], ['|a'], ['<a '], ['a@'], ['![']])('%s many times is drawn', (part) => {
    expect(drawn(part.repeat(8_000 / part.length))).not.toBe('');
  });
});
