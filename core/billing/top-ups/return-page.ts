import type { TopUp } from './store.ts';

const SENTENCES: Readonly<Record<TopUp['status'], string>> = {
  paid: 'Paid. The credits are in your balance.',
  processing: 'Ordered. The credits are added once your payment arrives.',
  open: 'Not paid yet. Nothing was charged.',
  closed: 'Not paid. Nothing was charged.',
};

/** Page for a buyer who returns from the payment provider. */
export const returnPage = ({ status, cents }: Pick<TopUp, 'status' | 'cents'>): Uint8Array =>
  new TextEncoder().encode(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Credits</title>
<body style="font: 16px/1.5 system-ui, sans-serif; max-width: 30rem; margin: 3rem auto; padding: 0 1rem">
<h1>Credits for $${(cents / 100).toFixed(2)}</h1>
<p>${SENTENCES[status]}</p>
<p>You can close this page.</p>
`);
