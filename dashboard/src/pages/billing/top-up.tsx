import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { keyOf, useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { usd } from '../../ui/data/numbers.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { OutsideLink } from '../../ui/link.tsx';

const MIN_USD = 5;
const MAX_USD = 10_000;
const ASK_MS = 3_000;

const STATES = {
  open: 'Not paid yet. Nothing was charged.',
  processing: 'Ordered. The credits are added once the payment arrives.',
  paid: 'Paid. The credits were added to the balance.',
  closed: 'This order can no longer be paid. Nothing was charged.',
};

/** Buys credits: the payment page opens in another tab, and this page shows when the credits arrive. */
export function TopUp({ onClose }: { readonly onClose: () => void }) {
  const { name } = useWorkspace();
  const [amount, setAmount] = useState('20');
  const order = useAction('createCheckout', { silent: true });
  const dollars = Number(amount);
  const isCents = Math.abs(dollars * 100 - Math.round(dollars * 100)) < 1e-6;
  const isGood = dollars >= MIN_USD && dollars <= MAX_USD && isCents;
  const submit = () => order.mutate({ body: { amount_cents: Math.round(dollars * 100) } });
  return (
    <Dialog
      title={`Buy credits for ${name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          {!order.data && (
            <Button variant="primary" onPress={submit} isPending={order.isPending} isDisabled={!isGood}>
              Order credits
            </Button>
          )}
        </>
      }
    >
      {order.error && <ErrorBox error={order.error} />}
      {order.data ? (
        <Payment session={order.data.session_id} url={order.data.checkout_url} dollars={dollars} />
      ) : (
        <TextField
          label="Amount in US dollars"
          value={amount}
          onChange={setAmount}
          autoFocus
          inputMode="decimal"
          error={isGood ? undefined : `From ${usd(MIN_USD)} to ${usd(MAX_USD)}, in whole cents.`}
          description="You pay on a page of the payment provider."
        />
      )}
    </Dialog>
  );
}

function Payment({
  session,
  url,
  dollars,
}: {
  readonly session: string;
  readonly url: string;
  readonly dollars: number;
}) {
  const queries = useQueryClient();
  const { data, error } = useOperation(
    'getCheckout',
    { params: { session_id: session } },
    {
      refetchInterval: ({ state }) => {
        const status = state.data?.status;
        return status === 'paid' || status === 'closed' ? false : ASK_MS;
      },
      refetchOnWindowFocus: 'always',
    },
  );
  const status = data?.status ?? 'open';
  useEffect(() => {
    if (status !== 'paid') return;
    for (const each of ['getBalance', 'listTransactions'] as const) {
      void queries.invalidateQueries({ queryKey: keyOf(each) });
    }
  }, [status, queries]);
  return (
    <>
      {error && <ErrorBox error={error} />}
      <p role="status">{STATES[status]}</p>
      {status === 'open' && (
        <p>
          <OutsideLink href={url}>{`Pay ${usd(dollars)} at the payment provider`}</OutsideLink>
        </p>
      )}
    </>
  );
}
