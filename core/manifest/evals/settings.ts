import * as z from 'zod';
import { type OnlineSettings, onlineSettingsOf, onlineShape } from './online.ts';
import { EVAL_TEXTS, ONLINE_TEXTS } from './settings-view.ts';

/** The manifest member `evals` (`docs/interface/evals.md#settings`). */
export type EvalSettings = {
  /** Whether a version becomes `latest` only once its suites pass. @default false */
  gate?: true;
  /** The version to compare with: `latest` or `v<n>`. @default - none */
  baseline?: string;
  /** @default - runs are not scored */
  online?: OnlineSettings;
};

const BASELINE_RULE = 'must be "latest" or a version such as "v3"';

/** The member as manifests write it. */
export const evalSettingsShape = z.strictObject(
  {
    gate: z.boolean('must be true or false').nullish().describe(EVAL_TEXTS.gate),
    baseline: z
      .string(BASELINE_RULE)
      .regex(/^(latest|v[1-9][0-9]{0,4})$/, BASELINE_RULE)
      .nullish()
      .describe(EVAL_TEXTS.baseline),
    online: onlineShape.nullish().describe(ONLINE_TEXTS.online),
  },
  'must be an object with gate, baseline and online',
);

/** Returns the settings without those that have their defaults; `undefined` if none is left. */
export function evalSettingsOf({
  gate,
  baseline,
  online,
}: z.output<typeof evalSettingsShape>): EvalSettings | undefined {
  const settings = {
    ...(gate === true && { gate }),
    ...(baseline != null && { baseline }),
    ...(online != null && { online: onlineSettingsOf(online) }),
  };
  return Object.keys(settings).length === 0 ? undefined : settings;
}
