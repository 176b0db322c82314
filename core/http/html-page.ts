export const STYLE = `
:root { color-scheme: light dark; --text: #1b1f24; --soft: #59636e; --line: #d1d9e0; --back: #f6f8fa; --card: #fff; --main: #0f5cc0; --on-main: #fff; --warn: #8a4600; --bad: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #9da7b3; --line: #3d444d; --back: #0d1117; --card: #161b22; --main: #6cb0ff; --on-main: #06203f; --warn: #f0b866; --bad: #ff8d85 }
}
* { box-sizing: border-box }
body { margin: 0; padding: 1rem; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 30rem; margin: 2rem auto; padding: 1.25rem; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; overflow-wrap: anywhere }
h1 { margin: 0 0 .75rem; font-size: 1.25rem; line-height: 1.3 }
p { margin: .75rem 0 }
dl { margin: 1rem 0; display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem }
dt { color: var(--soft) } dd { margin: 0 }
@media (max-width: 24rem) { dl { display: block } dd { margin-bottom: .5rem } main { margin-top: .5rem } }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600 }
input { width: 100%; padding: .5rem .75rem; font: inherit; color: inherit; background: var(--back); border: 1px solid var(--soft); border-radius: .375rem }
.row { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1rem }
button { padding: .5rem 1rem; font: inherit; font-weight: 600; border: 1px solid var(--soft); border-radius: .375rem; color: inherit; background: transparent; cursor: pointer }
button.main { background: var(--main); border-color: var(--main); color: var(--on-main) }
:focus-visible { outline: 3px solid var(--main); outline-offset: 2px }
a { color: var(--main) }
.soft { color: var(--soft) } .warn { color: var(--warn); font-weight: 600 } .bad { color: var(--bad); font-weight: 600 }
pre, .text { white-space: pre-wrap } pre { padding: .75rem; border: 1px solid var(--line); border-radius: .375rem; background: var(--back); font: .875rem/1.5 ui-monospace, monospace }
textarea { width: 100%; min-height: 4rem; padding: .5rem .75rem; font: inherit; color: inherit; background: var(--back); border: 1px solid var(--soft); border-radius: .375rem }
a.button { display: inline-block; padding: .5rem 1rem; font-weight: 600; text-decoration: none; border: 1px solid var(--main); border-radius: .375rem }
code.token { display: block; margin: 1rem 0; padding: .75rem; border: 1px solid var(--line); border-radius: .375rem; background: var(--back); font: 1rem/1.5 ui-monospace, monospace; user-select: all }
`;

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
/** Escapes untrusted text, and removes characters that could reorder or hide other text. */
export const escaped = (text: string): string =>
  text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '').replaceAll(/[&<>"']/g, (sign) => ESCAPES[sign]!);

/**
 * Returns an HTML page that needs no script. `title` and `content` are HTML.
 *
 * @param head HTML for the head.
 */
export function page(title: string, content: string, head = ''): Uint8Array {
  return new TextEncoder().encode(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Agent Platform</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
${head}</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`);
}

/** Problem shown above a form that can be sent again. */
export const problemLine = (problem: string | undefined): string =>
  problem === undefined ? '' : `<p class="bad" role="alert">${escaped(problem)}</p>`;

export const errorPage = (message: string, hint?: string): Uint8Array =>
  page(
    'Something went wrong',
    `<p role="alert">${escaped(message)}</p>${hint === undefined ? '' : `<p class="soft">${escaped(hint)}</p>`}`,
  );

/** Formats a time as "23 November 2026, 09:30 UTC". */
export const inWords = (time: string): string =>
  `${new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(new Date(time))} UTC`;
