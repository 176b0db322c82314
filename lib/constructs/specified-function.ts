import { join } from 'node:path';
import type { Construct } from 'constructs';
import type { BackgroundFunctionName } from '#core/api/background.ts';
import { transportsSchema } from '#core/base/transports.ts';
import type { FunctionName } from '#core/http/route.ts';
import type { TableName } from '#core/ports/table-rules.ts';
import { memberSettings, type Stage } from '../config.ts';
import { FUNCTIONS, type FunctionSpec, hasFunction, MAX_BODY_MB, type TableAccess, tablesOf } from '../functions.ts';
import { PlatformFunction } from './platform-function.ts';

/**
 * Adds a function of `lib/functions.ts` with the size and the permissions of its entry there.
 *
 * @param bundles Folder with one bundle per function, built by scripts/build-functions.ts.
 */
export function addSpecifiedFunction(
  scope: Construct,
  fn: FunctionName | BackgroundFunctionName,
  { stage, bundles }: { readonly stage: Stage; readonly bundles: string },
): PlatformFunction {
  const spec: FunctionSpec = FUNCTIONS[fn];
  const platformFunction = new PlatformFunction(scope, fn, {
    stage,
    bundle: join(bundles, fn),
    memoryMb: spec.memoryMb,
    timeoutSeconds: spec.timeoutSeconds,
    reserved: stage.concurrency.reserved[fn],
    callsItself: spec.callsItself,
    environment: {
      PLATFORM_MAX_DIRECT_BODY_MB: String(MAX_BODY_MB),
      PLATFORM_RUN_RETENTION_DAYS: String(stage.runRetentionDays),
      ...stage.settings,
      ...memberSettings(stage),
    },
  });
  for (const [name, access] of Object.entries(tablesOf(spec, stage))) {
    platformFunction.useTable(name as TableName, access as TableAccess);
  }
  if (spec.blobs) platformFunction.useBlobs(spec.blobs);
  if (spec.secrets) platformFunction.useSecrets(spec.secrets);
  if (spec.dataKeys) platformFunction.useDataKeys(spec.dataKeys);
  if (spec.models) {
    const { PLATFORM_MODELS: table, PLATFORM_TRANSPORTS: transports } = stage.settings;
    if (table) platformFunction.useModels(table);
    if (transports) platformFunction.useTransports(transportsSchema().parse(transports));
  }
  if (spec.mail && stage.mailFrom) platformFunction.useMail(stage.mailFrom);
  if (spec.payments && stage.stripe) platformFunction.usePayments(stage.stripe.secretName);
  if (spec.oidc && stage.oidc) platformFunction.useOidc(stage.oidc);
  if (spec.operator && stage.operator) platformFunction.useOperatorKey(stage.operator.secretName);
  if (spec.cardKey && stage.a2a) platformFunction.useCardKey(stage.a2a.secretName);
  if (spec.telemetry && stage.telemetry) platformFunction.useTelemetry(stage.telemetry, spec.telemetry);
  const called = spec.calls?.filter((name) => hasFunction(stage, name)) ?? [];
  if (called.length > 0) platformFunction.useFunctions(called);
  if (spec.serviceLogs && stage.services.kind !== 'off') platformFunction.useServiceLogs();
  if (spec.sandbox) platformFunction.useSandbox(stage.sandbox, spec.sandbox);
  if (spec.timers) platformFunction.useTimers(spec.timers);
  if (spec.timerQueue) platformFunction.readTimerQueue(spec.timerQueue);
  if (spec.runStream) platformFunction.readRunStream(spec.runStream);
  return platformFunction;
}
