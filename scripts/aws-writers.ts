import { loadStage, platformNameOf } from '#lib/config.ts';
import { runWriters } from './writers.ts';

/** `npm run aws:writers -- <stage> stop|start|status` */
const [stage = 'dev', action] = process.argv.slice(2);
await runWriters(platformNameOf(await loadStage(stage)), action);
