// Run `npm ci && npm test` in this folder.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { toMarkdown } from './to-markdown.js';

const markdown = (html, base = 'https://example.org/a/b.html') => toMarkdown({ html, base }).markdown;

function run(input) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['index.js'], {
    cwd: import.meta.dirname,
    input,
    encoding: 'utf8',
  });
  return { status, stderr, answer: JSON.parse(stdout) };
}

describe('text', () => {
  const cases = {
    'lists, nested and numbered from elsewhere': [
      '<ol start="3"><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ol>',
      '3. a\n   - b\n   - c\n4. d',
    ],
    'code with its language': [
      '<pre><code class="language-js">a &lt; b</code></pre><pre>plain\n  text</pre>',
      '```js\na < b\n```\n\n```\nplain\n  text\n```',
    ],
    'tables, with what Markdown would misread': [
      '<table><tr><th colspan="2">a|b</th></tr><tr><td>1<br>2</td><td><b>3</b></td></tr></table>',
      '| a\\|b |  |\n| --- | --- |\n| 1 2 | **3** |',
    ],
    'tables that only arrange the page': ['<table><tr><td><h1>a</h1></td><td>b</td></tr></table>', '# a\n\nb'],
    'text that looks like Markdown': ['<p>*a* [b]</p>', '\\*a\\* \\[b\\]'],
    'a page without tags': ['a &amp; b', 'a & b'],
    'nothing but navigation': ['<nav>a</nav>', ''],
  };
  for (const [name, [html, expected]] of Object.entries(cases)) {
    test(name, () => assert.equal(markdown(html), expected));
  }
});

describe('the main part', () => {
  const cases = {
    'is main': ['<p>a</p><main>The text of the page</main>', 'The text of the page'],
    'is the only article': ['<p>a</p><article>The text of the page</article>', 'The text of the page'],
    'is all of several articles': ['<article>a</article><article>b</article>', 'a\n\nb'],
    'is not a main with little of the text': ['<p>The text of the page</p><main>a</main>', 'The text of the page\n\na'],
    'may lie in a form, as some servers make pages': ['<form><p>a</p><input value="x"><button>b</button></form>', 'a'],
    'is without scripts, footers and what is hidden': [
      '<p>a</p><script>b</script><footer>c</footer><p hidden>d</p><div aria-hidden="true">e</div>',
      'a',
    ],
  };
  for (const [name, [html, expected]] of Object.entries(cases)) {
    test(name, () => assert.equal(markdown(html), expected));
  }
});

describe('links and images', () => {
  const cases = {
    'become absolute': [
      '<a href="c">d</a> <a href="//e.org">f</a>',
      '[d](https://example.org/a/c) [f](https://e.org/)',
    ],
    'follow the base of the page': ['<base href="/x/"><a href="c">d</a>', '[d](https://example.org/x/c)'],
    'that run code or lead within the page are text': ['<a href="javascript:a()">b</a><a href="#c">d</a>', 'bd'],
    'without text are left out': ['a<a href="/b"></a>', 'a'],
    'images need a description and an address': [
      '<img src="a.png" alt="b"><img src="c.png"><img src="data:image/png;base64,x" alt="d">',
      '![b](https://example.org/a/a.png)',
    ],
  };
  for (const [name, [html, expected]] of Object.entries(cases)) {
    test(name, () => assert.equal(markdown(html), expected));
  }

  test('relative ones are text when the address of the page is not known', () => {
    assert.equal(
      toMarkdown({ html: '<a href="/a">b</a> <a href="https://c.org/">d</a>' }).markdown,
      'b [d](https://c.org/)',
    );
  });

  test('are listed once, with what they show', () => {
    const { links } = toMarkdown({ html: '<a href="https://a.org/">b</a><a href="https://a.org/">c</a>' });
    assert.deepEqual(links, [{ text: 'b', url: 'https://a.org/' }]);
  });
});

test('what the page says of itself', () => {
  const head = '<title> A &amp; B\n</title><meta property="og:description" content="C">';
  const { title, description, language, words } = toMarkdown({ html: `<html lang="de">${head}<p>Ein Wort, don't` });
  assert.deepEqual(
    { title, description, language, words },
    { title: 'A & B', description: 'C', language: 'de', words: 3 },
  );
});

describe('bad input is refused in words', () => {
  const cases = [
    ['', /cannot be read as JSON/],
    ['null', /^html: must be the text of a page/],
    ['{"html": 5}', /^html: must be the text of a page/],
    ['{"html": "  "}', /^html: must be the text of a page/],
    ['{"html": "a", "base_url": "example.org"}', /^base_url: must be the http or https address/],
    ['{"html": "a", "base_url": "file:///etc"}', /^base_url: must be the http or https address/],
    [JSON.stringify({ html: '<table><tr><td>'.repeat(3000) }), /nested too deeply/],
  ];
  for (const [input, message] of cases) {
    test(input.slice(0, 60), () => {
      const { status, stderr, answer } = run(input);
      assert.deepEqual({ status, stderr }, { status: 1, stderr: '' });
      assert.match(answer.error, message);
    });
  }
});
