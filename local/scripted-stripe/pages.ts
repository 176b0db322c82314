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
  h1 { font-size: 1.25rem; margin: 1.5rem 0 0 }
  .amount { font-size: 2rem; font-weight: 600; margin: 0 0 1rem }
  fieldset { border: 1px solid #ccc; border-radius: .5rem; padding: .5rem 1rem }
  label { display: flex; gap: .75rem; align-items: baseline; padding: .35rem 0; cursor: pointer }
  small { display: block; color: #555 }
  button { font: inherit; padding: .6rem 1.5rem; border: 0; border-radius: .5rem; background: #1d4ed8; color: #fff; cursor: pointer }
  button + button { background: #555 }
</style>
<p class="note">Test payments: this provider runs on your machine and takes no money.</p>
${body}
</html>
`;

interface Order {
  readonly title: string;
  readonly cents: number;
  readonly status: string;
  /** Whether a bank transfer is pending. */
  readonly isAwaited: boolean;
}

/** Renders the payment page. */
export function payPage({ title, cents, status, isAwaited }: Order, problem?: string): string {
  const heading = `<h1>${escaped(title)}</h1><p class="amount">${dollars(cents)}</p>`;
  const said = problem === undefined ? '' : `<p class="problem" role="alert">${escaped(problem)}</p>`;
  return page(title, heading + said + (status === 'open' ? cardForm(cents) : afterwards(status, isAwaited)));
}

function cardForm(cents: number): string {
  const cards = Object.entries(TEST_CARDS).map(([card, effect], index) => {
    const name = card === 'bank' ? 'Bank transfer' : card.replaceAll(/(\d{4})(?=\d)/g, '$1 ');
    const checked = index === 0 ? ' checked' : '';
    return `<label><input type="radio" name="card" value="${card}"${checked}><span>${name}<small>${escaped(effect)}</small></span></label>`;
  });
  return `<form method="post"><fieldset><legend>Test card</legend>${cards.join('\n')}</fieldset>
<p><button>Pay ${dollars(cents)}</button></p></form>`;
}

function afterwards(status: string, isAwaited: boolean): string {
  if (!isAwaited) return `<p>This page ${status === 'complete' ? 'has been used' : 'is too old'}.</p>`;
  return `<p>The bank transfer is on its way.</p><form method="post">
<p><button name="transfer" value="arrives">The money arrives</button> <button name="transfer" value="bounces">It does not</button></p></form>`;
}

export const receiptPage = ({ cents, refundedCents }: { cents: number; refundedCents: number }): string =>
  page(
    'Receipt',
    `<h1>Receipt</h1><p>Paid ${dollars(cents)}${refundedCents > 0 ? `, of which ${dollars(refundedCents)} were refunded` : ''}.</p>`,
  );
