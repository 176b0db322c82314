import type { AgentFolder } from '#core/manifest/folder/agent-folder.ts';
import { type ChosenFile, readChosen } from './chosen-folder.ts';

/** What the worker answers. */
export type Read = { readonly folder: AgentFolder } | { readonly problem: string };

/** Reads and packs what was chosen, away from the page: that takes seconds for a large folder. */
addEventListener('message', async ({ data }: MessageEvent<readonly ChosenFile[]>) => {
  let answer: Read;
  try {
    answer = { folder: await readChosen(data) };
  } catch (error) {
    answer = { problem: (error as Error).message };
  }
  postMessage(answer);
});
