import { createHash } from 'node:crypto';
import type { Json } from '#core/base/json.ts';
import { escaped, inWords, page, problemLine, STYLE } from '#core/http/html-page.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Approval } from './approval.ts';

/** Headers of every answer to a link: no script, no other site, nothing kept, found or passed on. */
export const LINK_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
};

/** Keeps ends of lines, which {@link escaped} removes. */
const lines = (text: string): string => text.split('\n').map(escaped).join('\n');

/** Shows hidden characters of JSON as escapes: who decides must see what the tool gets. */
const jsonLines = (value: Json): string =>
  lines(
    JSON.stringify(value, null, 2).replaceAll(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu, (sign) =>
      [...Array(sign.length).keys()].map((at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
    ),
  );

/** Page that asks. Its form goes to its own address; a field that takes several lines keeps Enter from deciding. */
export function linkPage(approval: Approval, problem?: string): Uint8Array {
  const { agentName, agentVersion, tool, args, kind, question = '' } = approval;
  const until = isoTime(approval.expiresAt);
  const rows = [
    ['Agent', `${escaped(agentName)} ${escaped(agentVersion)}`],
    ...(kind === 'answer' ? [] : [['Tool', escaped(tool)]]),
    ['Until', `<time datetime="${until}">${inWords(until)}</time>`],
  ].map(([term, text]) => `<dt>${term}</dt><dd>${text}</dd>`);
  const asked =
    kind === 'answer'
      ? `<p class="text">${lines(question)}</p>`
      : `<p>The agent waits for a decision about this.</p>\n<pre tabindex="0">${jsonLines(args)}</pre>`;
  return page(
    kind === 'answer' ? 'An agent asks' : 'Approve this call?',
    `${problemLine(problem)}${asked}
<dl>${rows.join('')}</dl>
<form method="post">
${kind === 'answer' ? answerFields(approval) : DECISION_FIELDS}
</form>
<p class="soft">The decision is final, and the link works once.</p>`,
  );
}

const DECISION_FIELDS = `<label for="reason">Reason, if you like</label>
<textarea id="reason" name="reason" maxlength="4000"></textarea>
<div class="row"><button class="main" name="decision" value="approve">Approve</button><button name="decision" value="deny">Refuse</button></div>`;

function answerFields({ options, schema }: Approval): string {
  const hidden = '<input type="hidden" name="decision" value="answer">';
  if (options !== undefined) {
    const button = (text: string) => `<button name="answer" value="${value(text)}">${escaped(text)}</button>`;
    return `${hidden}<div class="row">${options.map(button).join('')}</div>`;
  }
  const name = schema === undefined ? 'answer' : 'answer_json';
  const label = schema === undefined ? 'Answer' : 'Answer, as JSON';
  const shape =
    schema === undefined ? '' : `<p>It must match this schema:</p><pre tabindex="0">${jsonLines(schema)}</pre>\n`;
  return `${hidden}${shape}<label for="answer">${label}</label>
<textarea id="answer" name="${name}" required></textarea>
<div class="row"><button class="main">Answer</button></div>`;
}

/** Escapes the value of a field, which is sent back as it is. */
const value = (text: string): string => text.replaceAll(/[^ -~]|[&<>"']/gu, (sign) => `&#${sign.codePointAt(0)};`);

const DONE: { readonly [Status in Approval['status']]?: string } = {
  approved: 'Approved',
  denied: 'Refused',
  answered: 'Answered',
};

export const decidedPage = ({ status }: Approval): Uint8Array =>
  page(DONE[status] ?? 'Decided', '<p>The agent goes on. You can close this page.</p>');
