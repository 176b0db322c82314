import { parseArgs } from 'node:util';
import { loadStage, tablePrefixOf } from '#lib/config.ts';
import { printOwnerKey } from './owner-key.ts';

/** `npm run aws:key -- <stage> [--another]` */
const { positionals, values } = parseArgs({ allowPositionals: true, options: { another: { type: 'boolean' } } });
const stage = await loadStage(positionals[0] ?? 'dev');
await printOwnerKey({
  tablePrefix: tablePrefixOf(stage),
  cell: stage.cell,
  isFurther: values.another ?? false,
  further: `npm run aws:key -- ${stage.name} --another`,
  deploy: `npm run cdk -- deploy --all -c stage=${stage.name}`,
});
