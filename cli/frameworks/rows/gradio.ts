import { filesWith, preferFiles } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { webService } from '../web-service.ts';

export const gradio: Framework = {
  name: 'gradio',
  title: 'Gradio',
  language: 'python',
  packages: ['gradio'],
  example: 'a file must call `demo.launch()`.',
  entriesIn: (project) =>
    preferFiles(
      filesWith(project, /\.py$/, /^[ \t]{0,20}(?:import|from) gradio\b/m, /\.launch\(/),
      'app.py',
      'main.py',
      'demo.py',
    ),
  adapt(project, { file }) {
    const port = /\.launch\([^)]*server_port\s*=\s*(\d+)/.exec(project.textOf(file) ?? '')?.[1];
    return webService(project, {
      language: 'python',
      command: `GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=$PORT GRADIO_ANALYTICS_ENABLED=False python3 ${file}`,
      notes: [
        port === undefined || port === '3000'
          ? undefined
          : `${file} launches on port ${port}. Remove server_port, so that the variable GRADIO_SERVER_PORT decides.`,
      ],
    });
  },
};
