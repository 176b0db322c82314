import { parseArgs } from 'node:util';
import { STSClient } from '@aws-sdk/client-sts';
import { loadStage } from '#lib/config.ts';
import type { State } from './doctor/checks.ts';
import { diagnose } from './doctor/diagnose.ts';

const HELP = `npm run aws:doctor -- [stage] [--json]

Reads the account of your credentials, and says what a deployment of the stage would meet
there: what would fail, why, and what to do. It changes nothing. The stage is \`dev\` unless
you name one. scripts/doctor/policy.json has the rights that it needs; a check whose
right is missing is reported as "cannot be known", with the name of the right.

  --json   prints one JSON document instead of lines
  --help   prints this text

The exit code is 1 if something fails, else 0.
`;

const LABELS: Readonly<Record<State, string>> = {
  ok: 'ok',
  warning: 'warning',
  fails: 'fails',
  unknown: 'cannot be known',
};

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
});
if (values.help) {
  process.stdout.write(HELP);
} else {
  const stage = await loadStage(positionals[0] ?? 'dev');
  const region = await new STSClient().config.region().catch(() => undefined);
  const diagnosis = await diagnose(stage, region);
  const { findings } = diagnosis;
  if (values.json) process.stdout.write(`${JSON.stringify(diagnosis, undefined, 2)}\n`);
  else {
    for (const { check, state, text, mend } of findings) {
      process.stdout.write(`${LABELS[state].padEnd(15)}  ${check}: ${text}${mend ? ` -> ${mend}` : ''}\n`);
    }
    const count = (state: State) => findings.filter((each) => each.state === state).length;
    const counts = (Object.keys(LABELS) as State[]).map((state) => `${count(state)} ${LABELS[state]}`);
    process.stdout.write(`Stage ${stage.name}: ${counts.join(', ')}.\n`);
  }
  if (findings.some(({ state }) => state === 'fails')) process.exitCode = 1;
}
