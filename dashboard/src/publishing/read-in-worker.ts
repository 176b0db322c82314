import type { AgentFolder } from '#core/manifest/folder/agent-folder.ts';
import type { ChosenFile } from './chosen-folder.ts';
import type { Read } from './read-worker.ts';

/** Reads the selected files in a worker. Throws Error. */
export function readInWorker(files: readonly ChosenFile[]): Promise<AgentFolder> {
  const worker = new Worker(new URL('./read-worker.ts', import.meta.url), { type: 'module' });
  const answer = new Promise<AgentFolder>((resolve, reject) => {
    worker.addEventListener('message', ({ data }: MessageEvent<Read>) =>
      'folder' in data ? resolve(data.folder) : reject(new Error(data.problem)),
    );
    worker.addEventListener('error', ({ message }) => reject(new Error(`It could not be read: ${message}`)));
  });
  worker.postMessage(files);
  return answer.finally(() => worker.terminate());
}
