import { TEST_CARDS } from './scripted-stripe.ts';

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (character) => ESCAPES[character]!);
const dollars = (cents: number): string => `$${(cents / 100).toFixed(2)}`;

const page = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 30rem; margin: 3rem auto; padding: 0 1rem }
  .note { background: #fff4d6; color: #5a4300; padding: .5rem 1rem; border-radius: .5rem }
  .problem { color: #b00020 }
  label { display: block; margin: .5rem 0 }
  button { font: inherit; padding: .5rem 1.5rem }
</style>
<p class="note">Test payments: this provider runs on your machine and takes no money.</p>
${body}
</html>
`;

/** The page on which one pays. */
export function payPage(
  { title, cents, status }: { title: string; cents: number; status: string },
  problem?: string,
): string {
  const heading = `<h1>${escaped(title)}: ${dollars(cents)}</h1>`;
  const said = problem === undefined ? '' : `<p class="problem" role="alert">${escaped(problem)}</p>`;
  if (status !== 'open') {
    const state = status === 'complete' ? 'has been paid' : 'is too old';
    return page(title, `${heading}${said}<p>This page ${state}.</p>`);
  }
  const cards = Object.entries(TEST_CARDS).map(([card, effect], index) => {
    const name = card === 'bank' ? 'Bank transfer' : card.replaceAll(/(\d{4})(?=\d)/g, '$1 ');
    const checked = index === 0 ? ' checked' : '';
    return `<label><input type="radio" name="card" value="${card}"${checked}> ${name} <small>${escaped(effect)}</small></label>`;
  });
  return page(
    title,
    `${heading}${said}<form method="post"><fieldset><legend>Test card</legend>${cards.join('\n')}</fieldset>
<p><button>Pay ${dollars(cents)}</button></p></form>`,
  );
}

export const receiptPage = ({ cents, refundedCents }: { cents: number; refundedCents: number }): string =>
  page(
    'Receipt',
    `<h1>Receipt</h1><p>Paid ${dollars(cents)}${refundedCents > 0 ? `, of which ${dollars(refundedCents)} were refunded` : ''}.</p>`,
  );
