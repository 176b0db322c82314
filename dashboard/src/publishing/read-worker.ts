import type { AgentFolder } from '#core/manifest/folder/agent-folder.ts';
import { type ChosenFile, readChosen } from './chosen-folder.ts';

/** Response of the worker. */
export type Read = { readonly folder: AgentFolder } | { readonly problem: string };

/** Reads and packs the selected files in a worker, because a large folder takes seconds. */
addEventListener('message', async ({ data }: MessageEvent<readonly ChosenFile[]>) => {
  let answer: Read;
  try {
    answer = { folder: await readChosen(data) };
  } catch (error) {
    answer = { problem: (error as Error).message };
  }
  postMessage(answer);
});
