import { UsageError } from '#client/usage-error.ts';
import { hasCode } from '#core/base/errors.ts';
import { namedChannel, versionsText } from '../shared/channels.ts';
import type { Configure } from '../shared/cli.ts';

const promote: Configure = (command, cli) => {
  command
    .argument('<agent@channel>', 'Channel, such as hello@prod; a new one is made')
    .argument('[version]', 'Version that it is to name, such as v3 (default: its canary, or else the latest)')
    .option('--canary <percent>', 'Give the version only this part of the calls, from 0 to 100')
    .option('--min-score <mean>', 'With --canary: mean online score, from 0 to 1, below which it is taken back')
    .option('--why <text>', 'Reason, for the history')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform promote hello@prod v4 --canary 10\n  $ platform promote hello@prod v4 --canary 10 --min-score 0.7\n  $ platform promote hello@prod\n  $ platform promote hello@prod v3 --why "the release of May"',
    )
    .action(async (text, version, { canary, minScore, why }) => {
      if (minScore !== undefined && canary === undefined) throw new UsageError('Give --min-score with --canary.');
      const { params, address } = await namedChannel(cli, text);
      const client = await cli.client();
      const before = await client.getChannel({ params }).catch((error: unknown) => {
        if (hasCode(error, 'NOT_FOUND')) return undefined;
        throw error;
      });
      const step = { revision: before?.revision ?? 0, ...(why !== undefined && { why }) };
      const change = async () => {
        if (canary !== undefined) {
          if (before === undefined) {
            throw new UsageError(
              `There is no channel ${address} yet: promote a version to it first, without --canary.`,
            );
          }
          const { key, max_error_rate, min_calls, min_score } = before.canary ?? {};
          const beside = {
            ...{ key, max_error_rate, min_calls },
            min_score: minScore === undefined ? min_score : scoreOf(minScore),
            version: version ?? before.canary?.version ?? 'latest',
            percent: percentOf(canary),
          };
          return client.putChannel({ params, body: { version: before.version, canary: beside, ...step } });
        }
        if (version === undefined && before?.canary != null) return client.promoteCanary({ params, body: step });
        return client.putChannel({ params, body: { version: version ?? 'latest', ...step } });
      };
      cli.output.result(await change(), (channel) => `${channel.reference} names ${versionsText(channel)}.`);
    });
};

/** Throws UsageError. */
function percentOf(text: string): number {
  const percent = Number(text.replace(/%$/, ''));
  if (text.trim() !== '' && percent >= 0 && percent <= 100) return percent;
  throw new UsageError(`Invalid --canary "${text}": must be a number from 0 to 100.`);
}

/** Throws UsageError. */
function scoreOf(text: string): number {
  const score = Number(text);
  if (text.trim() !== '' && score >= 0 && score <= 1) return score;
  throw new UsageError(`Invalid --min-score "${text}": must be a number from 0 to 1.`);
}

export default promote;
