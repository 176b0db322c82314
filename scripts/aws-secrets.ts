import { loadStage, platformNameOf } from '#lib/config.ts';
import { runSecrets } from './secrets.ts';

/** `npm run aws:secrets -- status|move|clean <stage> [--to <place>] [--dry-run]` */
await runSecrets({
  command: 'npm run aws:secrets --',
  target: '<stage>',
  platformOf: async (stage) => platformNameOf(await loadStage(stage)),
});
