import { UsageError } from '#client/usage-error.ts';
import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { mayHaveBrowser } from '../signing-in/open-url.ts';

const columns = ['created_at', 'transaction_type', 'amount_cents', 'balance_after_cents', 'description'];

const billing: Configure = (command, cli) => {
  operations([
    { name: 'balance', operation: 'getBalance', example: 'billing balance' },
    { name: 'history', operation: 'listTransactions', columns, example: 'billing history' },
    { name: 'checkout', operation: 'getCheckout', example: 'billing checkout CHECKOUT_ID' },
    { name: 'earnings', operation: 'getEarnings', example: 'billing earnings' },
  ])(command, cli);
  command
    .command('add')
    .description('Buy credits; opens the payment page in the browser')
    .argument('<dollars>', 'Amount in US dollars, such as 20 or 12.50')
    .option('--no-open', 'Print the URL without opening it')
    .addHelpText('after', '\nExample:\n  $ platform billing add 20 --no-open')
    .action(async (dollars, { open: isWanted }) => {
      const amount = Number(dollars.replace(/^\$/, ''));
      if (!Number.isFinite(amount))
        throw new UsageError(`Invalid amount "${dollars}": expected dollars, such as 20 or 12.50.`);
      const checkout = await (await cli.client()).createCheckout({ body: { amount_usd: amount } });
      cli.output.result(checkout, ({ checkout_url }) => checkout_url);
      if (isWanted && cli.isInteractive && mayHaveBrowser(cli.host.env)) cli.host.openUrl(checkout.checkout_url);
      cli.output.note(`To check the payment, run \`platform billing checkout ${checkout.session_id}\`.`);
    });
};

export default billing;
